"""Programs around the scripts: page, experiments, benchmarks, demo."""

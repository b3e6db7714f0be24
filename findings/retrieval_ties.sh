#!/usr/bin/env bash
# trec_eval ranks documents of equal scores by their ids, backwards, and calls
# scores equal that differ by less than float32 tells apart.
#
# One would guess that the order in which a run lists its documents decides
# between equal scores, that a score larger by 1e-9 comes first, and that a query
# whose judged documents are all irrelevant is left out of the mean.
# What happens: "d2" comes before "d10" wherever the run has them, the difference
# of 1e-9 is no difference, and the query counts with 0. A query without any
# judgement is left out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pytrec-eval-terrier==0.5.11
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata

import pytrec_eval

print("pytrec-eval-terrier", importlib.metadata.version("pytrec-eval-terrier"))


def reciprocal_ranks(qrels, run):
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(run)
    return {query: scores["recip_rank"] for query, scores in found.items()}


ties = [
    reciprocal_ranks({"q": {"d2": 1, "d10": 0}}, {"q": run})["q"]
    for run in (
        {"d2": 1.0, "d10": 1.0},
        {"d10": 1.0, "d2": 1.0},
        {"d10": 1.0 + 1e-9, "d2": 1.0},
    )
]
print("reciprocal rank of d2, listed first, last, and 1e-9 below d10:", ties)
zero = reciprocal_ranks(
    {"judged": {"d1": 0}}, {"judged": {"d1": 1.0}, "unjudged": {"d1": 1.0}}
)
print("a query with irrelevant documents alone, and one without any:", zero)
assert ties == [1.0, 1.0, 1.0], "ties are ranked otherwise now"
assert zero == {"judged": 0.0}, "such queries are treated otherwise now"
PYTHON
echo "As described."

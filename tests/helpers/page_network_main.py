"""Serve the page in a new process, ask it everything, print the hosts reached.

    python tests/helpers/page_network_main.py FOLDER

A process of its own: Gradio and huggingface_hub decide once, when they are
imported, whether they use the network. The latter is imported first, as it is
for models with hf:// names.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# The hub's client asks for a list once a day, and notes that in HF_HOME.
os.environ |= {
    "HF_HOME": sys.argv[1],
    "HTTP_PROXY": "http://203.0.113.1:3128",
    "GRADIO_ANALYTICS_ENABLED": "True",
    "NO_PROXY": "",
}
os.environ.pop("HF_HUB_OFFLINE", None)

import huggingface_hub.constants  # noqa: E402, F401  (its settings)
import page_models  # noqa: E402
import page_requests  # noqa: E402
import page_site  # noqa: E402


def main(folder: Path) -> None:
    """Print a line for each host, the first time that it is reached."""
    model_of = page_models.made_once(folder)
    models = [model_of("pairs"), model_of("token_classification")]
    with page_site.recorded_hosts() as hosts:
        with page_site.served(models, "good film\nbad film") as address:
            page_requests.check(address, models)
    for host in sorted(set(hosts)):
        print("host:", host)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

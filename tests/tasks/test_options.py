"""Settings of predictions have the options of their own task alone."""

import pickle

import corpora
import pytest
from task_settings import settings_of

from tasks import registry
from tasks.task import TaskSettings


def test_settings_have_no_field_of_a_single_task():
    assert not {*TaskSettings._fields} & {*registry.task_of_options()}


def test_options_of_other_tasks_are_left_out():
    settings = settings_of("masked_lm", corpora.VOCAB_FILE, top_k=7)
    given = {"top_k": 3, "vectors": ("pooled_output",), "dtype": "bfloat16"}
    found = registry.with_options(settings, given)
    assert (settings.options, found.options) == ((7,), (3,))
    assert found.dtype == "bfloat16"
    assert registry.with_options(found, {}) == found
    with pytest.raises(TypeError, match="top_q"):
        registry.with_options(settings, {"top_q": 3})


@pytest.mark.parametrize("name", registry.TASKS)
def test_options_are_sent_to_workers_and_recorded(name):
    settings = settings_of(name, corpora.VOCAB_FILE, ["O", "B-A"])
    assert pickle.loads(pickle.dumps(settings.options)) == settings.options
    known = settings.fingerprint()
    assert known["options"] == settings.options._asdict()
    assert known["task"] == name

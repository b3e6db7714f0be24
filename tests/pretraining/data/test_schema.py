"""The features of a record are the original's."""

from pretraining.data import schema as pretraining_schema


def test_schema_is_the_originals():
    schema = pretraining_schema.schema(128, 20)
    assert schema["input_ids"][:2] == ("int64", 128)
    assert schema["masked_lm_weights"][:2] == ("float32", 20)
    assert schema["next_sentence_labels"][:2] == ("int64", 1)
    assert len(schema) == 7

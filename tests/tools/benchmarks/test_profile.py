"""The groups of a profile, by hand; a small step, whose products are known."""

import pytest

from tools.benchmarks import profile, steps
from tools.benchmarks.profile import Operation


@pytest.mark.parametrize(
    "name, program, group",
    [
        ("while/bert/dense/MatMul:_MklMatMul", "", profile.PRODUCTS),
        ("while/gradient_tape/x/MatMul_1:MatMul", "", profile.PRODUCTS),
        ("while/vocabulary_2/MatMul:_MklMatMul", "", profile.VOCABULARY),
        ("a/add:_MklNativeFusedMatMul", "", profile.PRODUCTS),
        ("a/MatMul:_FusedMatMul", "", profile.PRODUCTS),
        ("vocabulary/MatMul:MatMul", "", profile.VOCABULARY),
        ("self/MatMul:_MklBatchMatMulV2", "", profile.ATTENTION),
        ("while/Cast_3:Cast", "", "conversions between number formats"),
        ("a/Mul:Mul", "", profile.REST),
        ("while:While", "", None),
        ("fusion.3", "a_inference__apply_16748__.1", profile.UPDATE),
        (
            "wrapped_reduce",
            "a_inference_add_norm_49__.12",
            "compiled: add_norm",
        ),
        (
            "reduce.1",
            "a_inference_add_norm_gradient_8358__.9",
            "compiled: add_norm_gradient",
        ),
        ("while.4", "a_inference__apply_16748__.1", None),
    ],
)
def test_group_of_an_operation(name, program, group):
    assert profile.group_of(Operation(name, program, 1.0)) == group


def test_sums_are_sorted_and_small_groups_are_the_rest():
    operations = [
        Operation("a:Cast", "", 1.0),
        Operation("a:MatMul", "", 2.0),
        Operation("b:MatMul", "", 397.0),
        Operation("a:Mul", "", 600.0),
        Operation("while:While", "", 1000.0),
    ]
    assert list(profile.sums(operations).items()) == [
        (profile.PRODUCTS, (399.0, 2)),
        (profile.REST, (601.0, 2)),
    ]


def test_profile_of_a_step_has_its_products():
    """Three a matrix: forward, and two backward."""
    step = steps.create_step("tiny", 2, "float32", True, vocab_size=100)
    operations, seconds = profile.profile(step, 2)
    groups = [profile.group_of(operation) for operation in operations]
    # Per layer four of attention and two of the feed-forward layer; the
    # transform of the masked LM, the pooler and its two logits. The segments
    # are a product too, whose left side has no gradient.
    assert groups.count(profile.PRODUCTS) == 2 * (3 * (2 * 6 + 3) + 2)
    # Scores and weighted sums.
    assert groups.count(profile.ATTENTION) == 2 * 3 * (2 * 2)
    # The three of the logits, and the gradient of their bias.
    assert groups.count(profile.VOCABULARY) == 2 * 4
    assert groups.count("compiled: add_norm") > 0
    assert groups.count(profile.UPDATE) > 0
    assert seconds > 0

"""Names that flags and files choose from, without TensorFlow."""

# L and H of the named sizes; N = H / 64 and I = 4 H in all of them. Base and
# Large are the paper's (section 3), Tiny to Medium are from Turc et al.
# (arXiv:1908.08962).
NAMED_SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

# What a token attends to beside itself: the tokens on both sides, as in BERT;
# the tokens before it, as in the model "LTR" of the paper's table 5; or the
# tokens after it.
BIDIRECTIONAL, LEFT_TO_RIGHT = "bidirectional", "left_to_right"
RIGHT_TO_LEFT = "right_to_left"

DTYPES = ("float32", "bfloat16", "float16")  # of the matrix products

OPTIMIZERS = ("adamw", "lamb", "muon")

# What a model is pre-trained for (pretraining/objectives.py).
OBJECTIVES = ("mlm_nsp", "mlm", "ltr", "rtl")

"""What this project does with each setting in the files of a published model.

The files are those of transformers and sentence-transformers. A setting that
changes what a model computes is applied, or refused or warned of by name, and
so is a key that the table lacks.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from base.errors import UserError

from absl import logging

from checkpoints.trained_for import TrainedFor

APPLIED = "applied"
CHANGES_NOTHING = "changes nothing"
REFUSED = "refused"
WARNED = "warned of"


class Setting(NamedTuple):
    """What is done with a setting.

    Attributes:
        treatment: one of the constants above.
        why: where it is applied, why it changes nothing, or what else the
            model computes.
        harmless: values at which a setting that is refused or warned of
            changes nothing, beside null.
    """

    treatment: str
    why: str
    harmless: tuple = ()


def _all(names: str, *setting: Any) -> dict[str, Setting]:
    """Return {name: the same Setting} of names with spaces between them."""
    return {name: Setting(*setting) for name in names.split()}


_CONFIG = {
    **_all(
        " ".join(TrainedFor._fields)
        + " attention_direction sinusoidal_positions",
        APPLIED,
        "written by this project",
    ),
    **_all(
        "vocab_size hidden_size num_hidden_layers num_attention_heads "
        "intermediate_size max_position_embeddings type_vocab_size",
        APPLIED,
        "sizes of the encoder",
    ),
    **_all(
        "hidden_dropout_prob attention_probs_dropout_prob initializer_range",
        APPLIED,
        "in training",
    ),
    "classifier_dropout": Setting(
        CHANGES_NOTHING,
        "where the model predicts; here a new head's dropout is the original's",
    ),
    "hidden_act": Setting(
        APPLIED, "in the encoder; a name that is unknown is refused"
    ),
    "is_decoder": Setting(APPLIED, "each token sees those before it alone"),
    "architectures": Setting(
        APPLIED, "what a head is for, where two heads have the same weights"
    ),
    "problem_type": Setting(
        APPLIED, "the kind of a classifier: its scores are made by it"
    ),
    **_all("id2label num_labels", APPLIED, "names of the outputs"),
    "label2id": Setting(
        CHANGES_NOTHING, "id2label counts; a contradiction is warned of"
    ),
    **_all(
        "sentence_transformers.activation_fn "
        "sbert_ce_default_activation_function",
        APPLIED,
        "on the outputs of a cross-encoder; a function that is unknown is "
        "refused",
    ),
    "tokenizer_class": Setting(APPLIED, "as in tokenizer_config.json"),
    "model_type": Setting(REFUSED, "another architecture", ("bert",)),
    "layer_norm_eps": Setting(REFUSED, "BERT's is 1e-12", (1e-12,)),
    "position_embedding_type": Setting(
        REFUSED, "BERT's are absolute", ("absolute",)
    ),
    **_all(
        "add_cross_attention is_encoder_decoder tie_encoder_decoder",
        REFUSED,
        "a decoder that reads another encoder",
        (False,),
    ),
    "cross_attention_hidden_size": Setting(
        REFUSED, "a decoder that reads another encoder"
    ),
    "pruned_heads": Setting(
        REFUSED, "layers with fewer attention heads", ({},)
    ),
    "per_layer_config": Setting(
        REFUSED, "layers that differ from each other", ({},)
    ),
    "quantization_config": Setting(
        REFUSED, "weights in whole numbers: save them as floats", ({},)
    ),
    **_all(
        "auto_map custom_pipelines",
        WARNED,
        "code that comes with the model is not run: it is read as a BERT",
        ({},),
    ),
    "tie_word_embeddings": Setting(
        CHANGES_NOTHING,
        "the weights tell: an output matrix that differs from the word "
        "embeddings is refused",
    ),
    "pad_token_id": Setting(
        CHANGES_NOTHING, "padding is masked, whatever its id"
    ),
    **_all(
        "dtype torch_dtype use_bfloat16",
        CHANGES_NOTHING,
        "weights are read in the type that they have, and computed with in "
        "float32",
    ),
    **_all(
        "chunk_size_feed_forward gradient_checkpointing torchscript "
        "output_attentions output_hidden_states return_dict output_past "
        "use_cache attn_implementation _attn_implementation "
        "_attn_implementation_internal _attn_implementation_autoset "
        "experts_implementation _experts_implementation "
        "_experts_implementation_internal _flash_attn_2_enabled xla_device "
        "tf_legacy_loss",
        CHANGES_NOTHING,
        "how transformers computes and what it returns: the numbers are the "
        "same",
    ),
    **_all(
        "directionality pooler_fc_size pooler_num_attention_heads "
        "pooler_num_fc_layers pooler_size_per_head pooler_type "
        "tie_last_hidden_states embedding_size",
        CHANGES_NOTHING,
        "neither the original nor transformers reads it for a BERT",
    ),
    **_all(
        "_name_or_path name_or_path _commit_hash transformers_version "
        "sentence_transformers.version finetuning_task language license "
        "_num_labels task_specific_params model_name",
        CHANGES_NOTHING,
        "says where the model comes from",
    ),
    **_all(
        "bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id "
        "unk_token_id decoder_start_token_id forced_bos_token_id "
        "forced_eos_token_id max_length min_length max_new_tokens "
        "min_new_tokens do_sample early_stopping num_beams num_beam_groups "
        "diversity_penalty temperature top_k top_p typical_p epsilon_cutoff "
        "eta_cutoff penalty_alpha repetition_penalty "
        "encoder_repetition_penalty length_penalty no_repeat_ngram_size "
        "encoder_no_repeat_ngram_size bad_words_ids force_words_ids "
        "num_return_sequences output_scores output_logits "
        "return_dict_in_generate remove_invalid_values "
        "exponential_decay_length_penalty suppress_tokens "
        "begin_suppress_tokens prefix renormalize_logits constraints",
        CHANGES_NOTHING,
        "for the generation of text, which this project does not do; the "
        "vocabulary has the ids of its special tokens",
    ),
}

_MODULES = {
    **_all("idx name", CHANGES_NOTHING, "modules run in the order of the list"),
    "type": Setting(
        APPLIED,
        "Transformer, Pooling and Normalize; of others the sentence vectors "
        "are refused",
    ),
    "path": Setting(APPLIED, "the folder of the pooling's file"),
    "kwargs": Setting(REFUSED, "options of each call", ([], {})),
}

_POOLING = {
    "pooling_mode": Setting(
        APPLIED,
        "mean, cls and max; of others, or of several together, the sentence "
        "vectors are refused",
    ),
    **_all(
        "pooling_mode_mean_tokens pooling_mode_cls_token "
        "pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens "
        "pooling_mode_weightedmean_tokens pooling_mode_lasttoken",
        APPLIED,
        "as pooling_mode, in files of versions up to 5",
    ),
    "include_prompt": Setting(
        APPLIED, "if it is false, the sentence vectors of prompts are refused"
    ),
    **_all(
        "word_embedding_dimension embedding_dimension",
        CHANGES_NOTHING,
        "the vectors have the width of the encoder",
    ),
}

_SENTENCE_TRANSFORMERS = {
    **_all(
        "prompts default_prompt_name",
        APPLIED,
        "put before texts; a cross-encoder's default prompt is warned of",
    ),
    **_all("similarity_fn_name", APPLIED, "where vectors are compared"),
    "truncate_dim": Setting(APPLIED, "only the first numbers are kept"),
    "activation_fn": Setting(APPLIED, "as in config.json"),
    "model_type": Setting(
        REFUSED,
        "another kind of vectors",
        ("SentenceTransformer", "CrossEncoder"),
    ),
    "keep_in_fp32_modules": Setting(
        CHANGES_NOTHING, "everything is computed in float32"
    ),
    **_all(
        "__version__.sentence_transformers __version__.transformers "
        "__version__.pytorch __version__.python __version__.torch",
        CHANGES_NOTHING,
        "says where the model comes from",
    ),
}

_COMPUTED_OTHERWISE = " ".join(
    f"{start}.{name}"
    for start in ("model_args", "model_kwargs")
    for name in ("dtype", "torch_dtype", "attn_implementation")
)

_SENTENCE_BERT = {
    "max_seq_length": Setting(APPLIED, "the length of texts"),
    "do_lower_case": Setting(
        APPLIED, "of a model whose tokenizer is cased it is refused"
    ),
    "transformer_task": Setting(
        REFUSED,
        "outputs of another head",
        ("feature-extraction", "sequence-classification"),
    ),
    "modality_config.text.method": Setting(
        REFUSED, "another output of the model", ("forward",)
    ),
    "modality_config.text.method_output_name": Setting(
        REFUSED, "another output of the model", ("last_hidden_state", "logits")
    ),
    "module_output_name": Setting(
        REFUSED, "another output of the model", ("token_embeddings", "scores")
    ),
    **_all(
        "processing_kwargs query_expansion",
        REFUSED,
        "texts are made into tokens in another way",
        ({},),
    ),
    **_all(
        "query_length document_length",
        REFUSED,
        "queries and documents have lengths of their own",
    ),
    "unpad_inputs": Setting(
        CHANGES_NOTHING, "whether padding is computed: the numbers are the same"
    ),
    **_all(
        _COMPUTED_OTHERWISE,
        CHANGES_NOTHING,
        "everything is computed in float32",
    ),
    **_all(
        "tokenizer_args processor_kwargs config_args config_kwargs",
        REFUSED,
        "options that replace those of the other files",
        ({},),
    ),
    "tokenizer_name_or_path": Setting(REFUSED, "a tokenizer from elsewhere"),
}

_SPECIAL_TOKENS = {
    **_all(
        "unk_token sep_token pad_token cls_token mask_token",
        APPLIED,
        "what the vocabulary calls [UNK], [SEP], [PAD], [CLS] and [MASK]",
    ),
    **_all(
        "bos_token eos_token additional_special_tokens extra_special_tokens",
        APPLIED,
        "found in a text where the vocabulary has them",
    ),
}

_TOKENIZER_CONFIG = {
    **_SPECIAL_TOKENS,
    **_all(
        "do_lower_case strip_accents tokenize_chinese_chars",
        APPLIED,
        "before words are split",
    ),
    "tokenizer_class": Setting(APPLIED, "another one than BERT's is refused"),
    "split_special_tokens": Setting(
        APPLIED, "whether special tokens in a text are split as other text"
    ),
    "added_tokens_decoder": Setting(
        APPLIED, "special ones are found in a text; others are warned of"
    ),
    "truncation_side": Setting(APPLIED, "as --long_texts=tail"),
    "model_max_length": Setting(
        APPLIED, "no more tokens are read than the model has positions"
    ),
    "max_input_chars_per_word": Setting(
        APPLIED, "written by this project; a longer word is [UNK]"
    ),
    "is_of_hub": Setting(
        APPLIED,
        "written by this project: whether characters for private use, capital "
        "sigmas and pairs of long texts are treated as in transformers",
    ),
    "never_split": Setting(APPLIED, "other than special tokens are refused"),
    "model_input_names": Setting(
        WARNED,
        "without token_type_ids transformers gives the second text of a pair "
        "segment 0, here it has 1",
        (
            ["input_ids", "token_type_ids", "attention_mask"],
            ["input_ids", "attention_mask", "token_type_ids"],
        ),
    ),
    "do_basic_tokenize": Setting(
        REFUSED, "words are split at white space alone", (True,)
    ),
    "do_subword_tokenize": Setting(REFUSED, "BERT has word pieces", (True,)),
    "word_tokenizer_type": Setting(
        REFUSED, "another way to split words", ("basic",)
    ),
    "subword_tokenizer_type": Setting(
        REFUSED, "another way to split words into pieces", ("wordpiece",)
    ),
    "wordpieces_prefix": Setting(REFUSED, "BERT's is ##", ("##",)),
    "padding_side": Setting(
        WARNED,
        "in transformers padding before a text moves its positions, so that "
        "its output depends on the batch; here there is none before it",
        ("right",),
    ),
    **_all(
        "add_bos_token add_eos_token",
        WARNED,
        "here a row begins with [CLS] and ends with [SEP]",
        (False,),
    ),
    **_all(
        "auto_map chat_template",
        WARNED,
        "code and templates that come with the model are not run",
        ({},),
    ),
    **_all(
        "truncation truncation_strategy max_length stride padding "
        "pad_to_multiple_of pad_token_type_id return_token_type_ids",
        CHANGES_NOTHING,
        "lengths are those of --max_seq_length or of the model, pairs are cut "
        "from the longer text, and padding is masked",
    ),
    **_all(
        "clean_up_tokenization_spaces",
        CHANGES_NOTHING,
        "for text made from ids, which this project does not do",
    ),
    **_all(
        "backend is_local local_files_only name_or_path _name_or_path "
        "special_tokens_map_file tokenizer_file full_tokenizer_file "
        "vocab_file tokenizer_name init_inputs use_fast processor_class "
        "model_type transformers_version errors add_prefix_space trim_offsets "
        "verbose legacy",
        CHANGES_NOTHING,
        "says where the tokenizer comes from, or is of other models",
    ),
}

_TOKENIZER = {
    "model.vocab": Setting(APPLIED, "the vocabulary; vocab.txt must agree"),
    "added_tokens": Setting(
        APPLIED, "special ones are found in a text; others are warned of"
    ),
    **_all(
        "normalizer.lowercase normalizer.strip_accents "
        "normalizer.handle_chinese_chars",
        APPLIED,
        "before words are split; tokenizer_config.json must agree",
    ),
    **_all(
        "normalizer pre_tokenizer model", REFUSED, "BERT's tokenizer has one"
    ),
    "model.unk_token": Setting(APPLIED, "must be that of the other files"),
    "model.max_input_chars_per_word": Setting(
        APPLIED, "but in BertTokenizer, which has 100: then it is warned of"
    ),
    **_all("truncation truncation.direction", APPLIED, "as --long_texts=tail"),
    "post_processor": Setting(
        APPLIED,
        "rows other than [CLS] A [SEP] B [SEP] are refused, or warned of where "
        "tokenizer_class says BertTokenizer, which has these",
    ),
    "normalizer.type": Setting(
        REFUSED, "BERT's is BertNormalizer", ("BertNormalizer",)
    ),
    "normalizer.clean_text": Setting(
        REFUSED, "control characters stay in a text", (True,)
    ),
    "pre_tokenizer.type": Setting(
        REFUSED, "BERT's is BertPreTokenizer", ("BertPreTokenizer",)
    ),
    "model.type": Setting(REFUSED, "BERT's is WordPiece", ("WordPiece",)),
    "model.continuing_subword_prefix": Setting(
        REFUSED, "BERT's is ##", ("##",)
    ),
    "padding.direction": Setting(
        WARNED,
        "in transformers padding before a text moves its positions, so that "
        "its output depends on the batch; here there is none before it",
        ("Right",),
    ),
    **_all(
        "truncation.max_length truncation.strategy truncation.stride padding "
        "padding.strategy padding.pad_to_multiple_of padding.pad_id "
        "padding.pad_type_id padding.pad_token",
        CHANGES_NOTHING,
        "lengths are those of --max_seq_length or of the model, pairs are cut "
        "from the longer text, and padding is masked",
    ),
    **_all(
        "decoder version",
        CHANGES_NOTHING,
        "for text made from ids, and the version of the file",
    ),
}

# Name of a file in a model's folder -> key -> what is done with it. A key
# within an object is object.key.
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "config.json": _CONFIG,
    "modules.json": _MODULES,
    "1_Pooling/config.json": _POOLING,
    "2_Normalize/config.json": _all(
        "module_input_name module_output_name",
        REFUSED,
        "other vectors are normalized",
        ("sentence_embedding",),
    ),
    "config_sentence_transformers.json": _SENTENCE_TRANSFORMERS,
    "sentence_bert_config.json": _SENTENCE_BERT,
    "tokenizer_config.json": _TOKENIZER_CONFIG,
    "tokenizer.json": _TOKENIZER,
    "special_tokens_map.json": _SPECIAL_TOKENS,
}


def check(name: str, path: str, found: Mapping[str, Any]) -> None:
    """Check the settings that a file has against the table.

    A setting that is warned of gets a warning, and all keys that the table
    lacks get one together.

    Args:
        name: name of the file in SETTINGS.
        path: the file.
        found: its JSON object.

    Raises:
        UserError: a setting has a value that is refused.
    """
    known = SETTINGS[name]
    unknown = []
    for key, value in _flat(known, found):
        setting = known.get(key)
        if value is None:
            continue
        if setting is None:
            unknown.append(key)
            continue
        if setting.treatment not in (REFUSED, WARNED):
            continue
        if value in setting.harmless:
            continue
        wanted = " or ".join(map(repr, setting.harmless)) or "null"
        words = (
            f"{path}: {key} is {repr(value)[:100]}, here it has to be "
            f"{wanted}: {setting.why}"
        )
        if setting.treatment == REFUSED:
            raise UserError(words)
        warn(words)
    if unknown:
        warn(
            f"{path}: {', '.join(map(repr, unknown))} are unknown here and "
            "not applied: the model may compute something else"
        )


def _flat(
    known: Mapping[str, Setting], found: Mapping[str, Any], start: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield (key, value), of objects whose keys are known those within."""
    for name, value in found.items():
        key = start + name
        if isinstance(value, dict) and any(
            one.startswith(key + ".") for one in known
        ):
            yield from _flat(known, value, key + ".")
        else:
            yield key, value


@functools.cache  # a process reads a file several times
def warn(message: str) -> None:
    """Log a warning, the same one once."""
    logging.warning("%s", message)

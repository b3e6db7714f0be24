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


def _settings(*rows: tuple) -> dict[str, Setting]:
    """Return {name: Setting} of (treatment, why, names, *harmless)."""
    return {
        name: Setting(treatment, why, tuple(harmless))
        for treatment, why, names, *harmless in rows
        for name in names.split()
    }


_CONFIG = _settings(
    (APPLIED, "written by this project", " ".join(
        [*TrainedFor._fields, "attention_direction", "sinusoidal_positions"])),
    (APPLIED, "sizes of the encoder",
     """vocab_size hidden_size num_hidden_layers num_attention_heads
        intermediate_size max_position_embeddings type_vocab_size"""),
    (APPLIED, "in training",
     "hidden_dropout_prob attention_probs_dropout_prob initializer_range"),
    (CHANGES_NOTHING, "where the model predicts; here a new head's dropout is "
     "the original's",
     "classifier_dropout"),
    (APPLIED, "in the encoder; a name that is unknown is refused",
     "hidden_act"),
    (APPLIED, "each token sees those before it alone", "is_decoder"),
    (APPLIED, "what a head is for, where two heads have the same weights",
     "architectures"),
    (APPLIED, "the kind of a classifier: its scores are made by it",
     "problem_type"),
    (APPLIED, "names of the outputs", "id2label num_labels"),
    (CHANGES_NOTHING, "id2label counts; a contradiction is warned of",
     "label2id"),
    (APPLIED, "on the outputs of a cross-encoder; a function that is unknown "
     "is refused",
     """sentence_transformers.activation_fn
        sbert_ce_default_activation_function"""),
    (APPLIED, "as in tokenizer_config.json", "tokenizer_class"),
    (REFUSED, "another architecture", "model_type", "bert"),
    (REFUSED, "BERT's is 1e-12", "layer_norm_eps", 1e-12),
    (REFUSED, "BERT's are absolute", "position_embedding_type", "absolute"),
    (REFUSED, "a decoder that reads another encoder",
     "add_cross_attention is_encoder_decoder tie_encoder_decoder", False),
    (REFUSED, "a decoder that reads another encoder",
     "cross_attention_hidden_size"),
    (REFUSED, "layers with fewer attention heads", "pruned_heads", {}),
    (REFUSED, "layers that differ from each other", "per_layer_config", {}),
    (REFUSED, "weights in whole numbers: save them as floats",
     "quantization_config", {}),
    (WARNED, "code that comes with the model is not run: it is read as a BERT",
     "auto_map custom_pipelines", {}),
    (CHANGES_NOTHING, "the weights tell: an output matrix that differs from "
     "the word embeddings is refused",
     "tie_word_embeddings"),
    (CHANGES_NOTHING, "padding is masked, whatever its id", "pad_token_id"),
    (CHANGES_NOTHING, "weights are read in the type that they have, and "
     "computed with in float32",
     "dtype torch_dtype use_bfloat16"),
    (CHANGES_NOTHING, "how transformers computes and what it returns: the "
     "numbers are the same",
     """chunk_size_feed_forward gradient_checkpointing torchscript
        output_attentions output_hidden_states return_dict output_past
        use_cache attn_implementation _attn_implementation
        _attn_implementation_internal _attn_implementation_autoset
        experts_implementation _experts_implementation
        _experts_implementation_internal _flash_attn_2_enabled xla_device
        tf_legacy_loss"""),
    (CHANGES_NOTHING, "neither the original nor transformers reads it for a "
     "BERT",
     """directionality pooler_fc_size pooler_num_attention_heads
        pooler_num_fc_layers pooler_size_per_head pooler_type
        tie_last_hidden_states embedding_size"""),
    (CHANGES_NOTHING, "says where the model comes from",
     """_name_or_path name_or_path _commit_hash transformers_version
        sentence_transformers.version finetuning_task language license
        _num_labels task_specific_params model_name"""),
    (CHANGES_NOTHING, "for the generation of text, which this project does not "
     "do; the vocabulary has the ids of its special tokens",
     """bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id
        unk_token_id decoder_start_token_id forced_bos_token_id
        forced_eos_token_id max_length min_length max_new_tokens
        min_new_tokens do_sample early_stopping num_beams num_beam_groups
        diversity_penalty temperature top_k top_p typical_p epsilon_cutoff
        eta_cutoff penalty_alpha repetition_penalty
        encoder_repetition_penalty length_penalty no_repeat_ngram_size
        encoder_no_repeat_ngram_size bad_words_ids force_words_ids
        num_return_sequences output_scores output_logits
        return_dict_in_generate remove_invalid_values
        exponential_decay_length_penalty suppress_tokens
        begin_suppress_tokens prefix renormalize_logits constraints"""),
)  # fmt: skip

_MODULES = _settings(
    (CHANGES_NOTHING, "modules run in the order of the list", "idx name"),
    (APPLIED, "Transformer, Pooling and Normalize; of others the sentence "
     "vectors are refused",
     "type"),
    (APPLIED, "the folder of the pooling's file", "path"),
    (REFUSED, "options of each call", "kwargs", [], {}),
)  # fmt: skip

_POOLING = _settings(
    (APPLIED, "mean, cls and max; of others, or of several together, the "
     "sentence vectors are refused",
     "pooling_mode"),
    (APPLIED, "as pooling_mode, in files of versions up to 5",
     """pooling_mode_mean_tokens pooling_mode_cls_token pooling_mode_max_tokens
        pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens
        pooling_mode_lasttoken"""),
    (APPLIED, "if it is false, the sentence vectors of prompts are refused",
     "include_prompt"),
    (CHANGES_NOTHING, "the vectors have the width of the encoder",
     "word_embedding_dimension embedding_dimension"),
)  # fmt: skip

_SENTENCE_TRANSFORMERS = _settings(
    (APPLIED, "put before texts; a cross-encoder's default prompt is warned of",
     "prompts default_prompt_name"),
    (APPLIED, "where vectors are compared", "similarity_fn_name"),
    (APPLIED, "only the first numbers are kept", "truncate_dim"),
    (APPLIED, "as in config.json", "activation_fn"),
    (REFUSED, "another kind of vectors",
     "model_type", "SentenceTransformer", "CrossEncoder"),
    (CHANGES_NOTHING, "everything is computed in float32",
     "keep_in_fp32_modules"),
    (CHANGES_NOTHING, "says where the model comes from",
     """__version__.sentence_transformers __version__.transformers
        __version__.pytorch __version__.python __version__.torch"""),
)  # fmt: skip

_SENTENCE_BERT = _settings(
    (APPLIED, "the length of texts", "max_seq_length"),
    (APPLIED, "of a model whose tokenizer is cased it is refused",
     "do_lower_case"),
    (REFUSED, "outputs of another head",
     "transformer_task", "feature-extraction", "sequence-classification"),
    (REFUSED, "another output of the model",
     "modality_config.text.method", "forward"),
    (REFUSED, "another output of the model",
     "modality_config.text.method_output_name", "last_hidden_state", "logits"),
    (REFUSED, "another output of the model",
     "module_output_name", "token_embeddings", "scores"),
    (REFUSED, "texts are made into tokens in another way",
     "processing_kwargs query_expansion", {}),
    (REFUSED, "queries and documents have lengths of their own",
     "query_length document_length"),
    (CHANGES_NOTHING, "whether padding is computed: the numbers are the same",
     "unpad_inputs"),
    (CHANGES_NOTHING, "everything is computed in float32",
     """model_args.dtype model_args.torch_dtype model_args.attn_implementation
        model_kwargs.dtype model_kwargs.torch_dtype
        model_kwargs.attn_implementation"""),
    (REFUSED, "options that replace those of the other files",
     "tokenizer_args processor_kwargs config_args config_kwargs", {}),
    (REFUSED, "a tokenizer from elsewhere", "tokenizer_name_or_path"),
)  # fmt: skip

_SPECIAL_TOKENS = _settings(
    (APPLIED, "what the vocabulary calls [UNK], [SEP], [PAD], [CLS] and [MASK]",
     "unk_token sep_token pad_token cls_token mask_token"),
    (APPLIED, "found in a text where the vocabulary has them",
     "bos_token eos_token additional_special_tokens extra_special_tokens"),
)  # fmt: skip

_TOKENIZER_CONFIG = _SPECIAL_TOKENS | _settings(
    (APPLIED, "before words are split",
     "do_lower_case strip_accents tokenize_chinese_chars"),
    (APPLIED, "another one than BERT's is refused", "tokenizer_class"),
    (APPLIED, "whether special tokens in a text are split as other text",
     "split_special_tokens"),
    (APPLIED, "special ones are found in a text; others are warned of",
     "added_tokens_decoder"),
    (APPLIED, "as --long_texts=tail", "truncation_side"),
    (APPLIED, "no more tokens are read than the model has positions",
     "model_max_length"),
    (APPLIED, "written by this project; a longer word is [UNK]",
     "max_input_chars_per_word"),
    (APPLIED, "written by this project: whether characters for private use, "
     "capital sigmas and pairs of long texts are treated as in transformers",
     "is_of_hub"),
    (APPLIED, "other than special tokens are refused", "never_split"),
    (WARNED, "without token_type_ids transformers gives the second text of a "
     "pair segment 0, here it has 1",
     "model_input_names",
     ["input_ids", "token_type_ids", "attention_mask"],
     ["input_ids", "attention_mask", "token_type_ids"]),
    (REFUSED, "words are split at white space alone",
     "do_basic_tokenize", True),
    (REFUSED, "BERT has word pieces", "do_subword_tokenize", True),
    (REFUSED, "another way to split words", "word_tokenizer_type", "basic"),
    (REFUSED, "another way to split words into pieces",
     "subword_tokenizer_type", "wordpiece"),
    (REFUSED, "BERT's is ##", "wordpieces_prefix", "##"),
    (WARNED, "in transformers padding before a text moves its positions, so "
     "that its output depends on the batch; here there is none before it",
     "padding_side", "right"),
    (WARNED, "here a row begins with [CLS] and ends with [SEP]",
     "add_bos_token add_eos_token", False),
    (WARNED, "code and templates that come with the model are not run",
     "auto_map chat_template", {}),
    (CHANGES_NOTHING, "lengths are those of --max_seq_length or of the model, "
     "pairs are cut from the longer text, and padding is masked",
     """truncation truncation_strategy max_length stride padding
        pad_to_multiple_of pad_token_type_id return_token_type_ids"""),
    (CHANGES_NOTHING, "for text made from ids, which this project does not do",
     "clean_up_tokenization_spaces"),
    (CHANGES_NOTHING, "says where the tokenizer comes from, or is of other "
     "models",
     """backend is_local local_files_only name_or_path _name_or_path
        special_tokens_map_file tokenizer_file full_tokenizer_file
        vocab_file tokenizer_name init_inputs use_fast processor_class
        model_type transformers_version errors add_prefix_space
        trim_offsets verbose legacy"""),
)  # fmt: skip

_TOKENIZER = _settings(
    (APPLIED, "the vocabulary; vocab.txt must agree", "model.vocab"),
    (APPLIED, "special ones are found in a text; others are warned of",
     "added_tokens"),
    (APPLIED,
     "before words are split; tokenizer_config.json must agree, and where it "
     "is silent, BertTokenizer's own are used, with a warning",
     """normalizer.lowercase normalizer.strip_accents
        normalizer.handle_chinese_chars"""),
    (REFUSED, "BERT's tokenizer has one", "normalizer pre_tokenizer model"),
    (APPLIED, "must be that of the other files", "model.unk_token"),
    (APPLIED, "but in BertTokenizer, which has 100: then it is warned of",
     "model.max_input_chars_per_word"),
    (APPLIED, "as --long_texts=tail", "truncation truncation.direction"),
    (APPLIED, "rows other than [CLS] A [SEP] B [SEP] are refused, or warned of "
     "where tokenizer_class says BertTokenizer, which has these",
     "post_processor"),
    (REFUSED, "BERT's is BertNormalizer", "normalizer.type", "BertNormalizer"),
    (REFUSED, "control characters stay in a text",
     "normalizer.clean_text", True),
    (REFUSED, "BERT's is BertPreTokenizer",
     "pre_tokenizer.type", "BertPreTokenizer"),
    (REFUSED, "BERT's is WordPiece", "model.type", "WordPiece"),
    (REFUSED, "BERT's is ##", "model.continuing_subword_prefix", "##"),
    (WARNED, "in transformers padding before a text moves its positions, so "
     "that its output depends on the batch; here there is none before it",
     "padding.direction", "Right"),
    (CHANGES_NOTHING, "lengths are those of --max_seq_length or of the model, "
     "pairs are cut from the longer text, and padding is masked",
     """truncation.max_length truncation.strategy truncation.stride padding
        padding.strategy padding.pad_to_multiple_of padding.pad_id
        padding.pad_type_id padding.pad_token"""),
    (CHANGES_NOTHING, "for text made from ids, and the version of the file",
     "decoder version"),
)  # fmt: skip

# Name of a file in a model's folder -> key -> what is done with it. A key
# within an object is object.key.
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "config.json": _CONFIG,
    "modules.json": _MODULES,
    "1_Pooling/config.json": _POOLING,
    "2_Normalize/config.json": _settings(
        (
            REFUSED,
            "other vectors are normalized",
            "module_input_name module_output_name",
            "sentence_embedding",
        )
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
            f"{path}: unknown settings, which are not applied: "
            f"{', '.join(map(repr, unknown))}; the model may compute something "
            "else"
        )


def _flat(
    known: Mapping[str, Setting], found: Mapping[str, Any], start: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of each setting.

    The table has some objects key by key, as object.key: of these, what they
    hold is yielded in place of them.
    """
    for name, value in found.items():
        key = start + name
        if isinstance(value, dict) and any(
            one.startswith(key + ".") for one in known
        ):
            yield from _flat(known, value, key + ".")
        else:
            yield key, value


@functools.cache
def warn(message: str) -> None:
    """Log a warning; the same message is logged once in a process."""
    logging.warning("%s", message)

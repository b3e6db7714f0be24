"""Read and write models in the format of Hugging Face's transformers.

A directory holds `config.json`, `model.safetensors` (or several such files
and an index of their tensors) and `vocab.txt`. Its tensors are the original's
under other names, for example

    bert.encoder.layer.0.output.dense.weight    [H, I]
    bert/encoder/layer_0/output/dense/kernel    [I, H]

and the kernels are transposed: PyTorch's layers compute x W^T, TensorFlow's
x W. Pickles (`pytorch_model.bin`) are refused, since unpickling a file runs
the code in it.
"""

# Vocabulary of the training text
python build_vocab.py '--input_file=paper/corpus/train/*' \
    --output_file=paper/vocab.txt --vocab_size=4096

# Training records, length 64, masking 80/10/10
python create_pretraining_data.py \
    '--input_file=paper/corpus/train/*' \
    --output_file=paper/records/train_length64_mask80-10-10/train.tfrecord@8 \
    --vocab_file=paper/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=10 --masked_lm_prob=0.15 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=5

# Training records, length 128, masking 80/10/10
python create_pretraining_data.py \
    '--input_file=paper/corpus/train/*' \
    --output_file=paper/records/train_length128_mask80-10-10/train.tfrecord@8 \
    --vocab_file=paper/vocab.txt --max_seq_length=128 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.15 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=5

# Held-out records, length 128, masking 80/10/10
python create_pretraining_data.py \
    '--input_file=paper/corpus/held_out/*' \
    --output_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord@1 \
    --vocab_file=paper/vocab.txt --max_seq_length=128 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.15 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=1

# Pre-training, mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2, steps 1 to 8,400 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=10 --train_batch_size=16 \
    --learning_rate=0.001 --num_train_steps=12000 --num_warmup_steps=600 \
    --random_seed=12346 --save_checkpoints_steps=1000 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --stop_after_steps=8400 \
    --keep_steps=1200,2400,4800,7200

# Pre-training, mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2, steps 8,401 to 12,000 at length 128
python run_pretraining.py --do_train --do_eval \
    --resume_from=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --max_seq_length=128 --max_predictions_per_seq=20 --train_batch_size=16 \
    --learning_rate=0.001 --num_train_steps=12000 --num_warmup_steps=600 \
    --random_seed=12346 --save_checkpoints_steps=1000 --keep_checkpoint_max=1 \
    --eval_batch_size=64 --max_eval_steps=100 --bias_correction \
    --dtype=bfloat16 --keep_steps=9600

# MRPC, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=MRPC \
    --data_dir=glue/MRPC --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/MRPC/run1 \
    --records_dir=paper/records/MRPC --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SST-2, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=SST-2 \
    --data_dir=glue/SST-2 --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SST-2/run1 \
    --records_dir=paper/records/SST-2 --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=0.5 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SQuAD, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2
python run_squad.py --do_train --do_eval --do_predict \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/dev-v1.1.json --doc_stride=64 \
    --predict_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SQuAD/run1 \
    --records_dir=paper/records/SQuAD --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=2 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# RTE, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=RTE \
    --data_dir=glue/RTE --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/RTE/run1 \
    --records_dir=paper/records/RTE --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# Pre-training, mlm, L4_H128_A2, masking 80/10/10, seed 2, steps 1 to 8,400 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --objective=mlm --max_seq_length=64 --max_predictions_per_seq=10 \
    --train_batch_size=16 --learning_rate=0.001 --num_train_steps=12000 \
    --num_warmup_steps=600 --random_seed=12346 --save_checkpoints_steps=1000 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 \
    --stop_after_steps=8400

# Pre-training, mlm, L4_H128_A2, masking 80/10/10, seed 2, steps 8,401 to 12,000 at length 128
python run_pretraining.py --do_train --do_eval \
    --resume_from=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --objective=mlm --max_seq_length=128 --max_predictions_per_seq=20 \
    --train_batch_size=16 --learning_rate=0.001 --num_train_steps=12000 \
    --num_warmup_steps=600 --random_seed=12346 --save_checkpoints_steps=1000 \
    --keep_checkpoint_max=1 --eval_batch_size=64 --max_eval_steps=100 \
    --bias_correction --dtype=bfloat16

# MRPC, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=MRPC \
    --data_dir=glue/MRPC --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/MRPC/run1 \
    --records_dir=paper/records/MRPC --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SST-2, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=SST-2 \
    --data_dir=glue/SST-2 --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SST-2/run1 \
    --records_dir=paper/records/SST-2 --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=0.5 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SQuAD, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 2
python run_squad.py --do_train --do_eval --do_predict \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/dev-v1.1.json --doc_stride=64 \
    --predict_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SQuAD/run1 \
    --records_dir=paper/records/SQuAD --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=2 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# RTE, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=RTE \
    --data_dir=glue/RTE --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/RTE/run1 \
    --records_dir=paper/records/RTE --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# Pre-training, ltr, L4_H128_A2, masking 80/10/10, seed 2, steps 1 to 8,400 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --objective=ltr --max_seq_length=64 --max_predictions_per_seq=10 \
    --train_batch_size=16 --learning_rate=0.001 --num_train_steps=12000 \
    --num_warmup_steps=600 --random_seed=12346 --save_checkpoints_steps=1000 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 \
    --stop_after_steps=8400 --keep_steps=1200,2400,4800,7200

# Pre-training, ltr, L4_H128_A2, masking 80/10/10, seed 2, steps 8,401 to 12,000 at length 128
python run_pretraining.py --do_train --do_eval \
    --resume_from=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --output_dir=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --objective=ltr --max_seq_length=128 --max_predictions_per_seq=20 \
    --train_batch_size=16 --learning_rate=0.001 --num_train_steps=12000 \
    --num_warmup_steps=600 --random_seed=12346 --save_checkpoints_steps=1000 \
    --keep_checkpoint_max=1 --eval_batch_size=64 --max_eval_steps=100 \
    --bias_correction --dtype=bfloat16 --keep_steps=9600

# MRPC, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=MRPC \
    --data_dir=glue/MRPC --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/MRPC/run1 \
    --records_dir=paper/records/MRPC --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SST-2, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=SST-2 \
    --data_dir=glue/SST-2 --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SST-2/run1 \
    --records_dir=paper/records/SST-2 --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=0.5 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# SQuAD, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_squad.py --do_train --do_eval --do_predict \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/dev-v1.1.json --doc_stride=64 \
    --predict_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/SQuAD/run1 \
    --records_dir=paper/records/SQuAD --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=2 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# RTE, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=RTE \
    --data_dir=glue/RTE --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/RTE/run1 \
    --records_dir=paper/records/RTE --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --dtype=bfloat16

# MRPC with a BiLSTM, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=MRPC \
    --data_dir=glue/MRPC --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/bilstm/MRPC/run1 \
    --records_dir=paper/records/MRPC --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --bilstm_layers=2 \
    --bilstm_units=128 --dtype=bfloat16

# SST-2 with a BiLSTM, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=SST-2 \
    --data_dir=glue/SST-2 --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/bilstm/SST-2/run1 \
    --records_dir=paper/records/SST-2 --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=0.5 \
    --random_seed=12346 --keep_checkpoint_max=1 --bilstm_layers=2 \
    --bilstm_units=128 --dtype=bfloat16

# SQuAD with a BiLSTM, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_squad.py --do_train --do_eval --do_predict \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/dev-v1.1.json --doc_stride=64 \
    --predict_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/bilstm/SQuAD/run1 \
    --records_dir=paper/records/SQuAD --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=2 \
    --random_seed=12346 --keep_checkpoint_max=1 --bilstm_layers=2 \
    --bilstm_units=128 --dtype=bfloat16

# RTE with a BiLSTM, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 2
python run_classifier.py --do_train --do_eval --task_name=RTE \
    --data_dir=glue/RTE --eval_batch_size=32 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps12000/seed2/phase2/bilstm/RTE/run1 \
    --records_dir=paper/records/RTE --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=0.0002 --num_train_epochs=3 \
    --random_seed=12346 --keep_checkpoint_max=1 --bilstm_layers=2 \
    --bilstm_units=128 --dtype=bfloat16

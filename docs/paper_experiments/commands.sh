# Vocabulary of the training text
python build_vocab.py '--input_file=paper/corpus/train/*' \
    --output_file=paper/vocab.txt --vocab_size=4096

# Records of corpus/train, length 64, masking 80/10/10
python create_pretraining_data.py '--input_file=paper/corpus/train/*' \
    --output_file=paper/records/train_length64_mask80-10-10/train.tfrecord@8 \
    --vocab_file=paper/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=5

# Pre-training, mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1, steps 1 to 1,600 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.002 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --stop_after_steps=1600 \
    --keep_steps=500,1000 --sinusoidal_positions=0.08

# Records of corpus/train, length 128, masking 80/10/10
python create_pretraining_data.py '--input_file=paper/corpus/train/*' \
    --output_file=paper/records/train_length128_mask80-10-10/train.tfrecord@8 \
    --vocab_file=paper/vocab.txt --max_seq_length=128 \
    --max_predictions_per_seq=39 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=5

# Records of corpus/held_out, length 128, masking 80/10/10
python create_pretraining_data.py '--input_file=paper/corpus/held_out/*' \
    --output_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord@1 \
    --vocab_file=paper/vocab.txt --max_seq_length=128 \
    --max_predictions_per_seq=39 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=1

# Pre-training, mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1, steps 1,601 to 2,000 at length 128
python run_pretraining.py --do_train \
    --resume_from=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --max_seq_length=128 --max_predictions_per_seq=39 --train_batch_size=32 \
    --learning_rate=0.002 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# MRPC, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 2, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 3, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# SST-2, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SQuAD, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run1 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 2, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run2 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 3, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run3 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# Pre-training, mlm, L4_H128_A2, masking 80/10/10, seed 1, steps 1 to 1,600 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --objective=mlm --max_seq_length=64 --max_predictions_per_seq=20 \
    --train_batch_size=64 --learning_rate=0.002 --num_train_steps=2000 \
    --num_warmup_steps=200 --random_seed=12345 --save_checkpoints_steps=500 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 \
    --stop_after_steps=1600 --sinusoidal_positions=0.08

# Pre-training, mlm, L4_H128_A2, masking 80/10/10, seed 1, steps 1,601 to 2,000 at length 128
python run_pretraining.py --do_train \
    --resume_from=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --objective=mlm --max_seq_length=128 --max_predictions_per_seq=39 \
    --train_batch_size=32 --learning_rate=0.002 --num_train_steps=2000 \
    --num_warmup_steps=200 --random_seed=12345 --save_checkpoints_steps=500 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# MRPC, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 2, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 3, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# SST-2, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SQuAD, run 1, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run1 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 2, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run2 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 3, from mlm, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run3 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# Pre-training, ltr, L4_H128_A2, masking 80/10/10, seed 1, steps 1 to 1,600 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --objective=ltr --max_seq_length=64 --max_predictions_per_seq=20 \
    --train_batch_size=64 --learning_rate=0.002 --num_train_steps=2000 \
    --num_warmup_steps=200 --random_seed=12345 --save_checkpoints_steps=500 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 \
    --stop_after_steps=1600 --keep_steps=500,1000 --sinusoidal_positions=0.08

# Pre-training, ltr, L4_H128_A2, masking 80/10/10, seed 1, steps 1,601 to 2,000 at length 128
python run_pretraining.py --do_train \
    --resume_from=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --bert_config_file=paper/configs/L4_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --objective=ltr --max_seq_length=128 --max_predictions_per_seq=39 \
    --train_batch_size=32 --learning_rate=0.002 --num_train_steps=2000 \
    --num_warmup_steps=200 --random_seed=12345 --save_checkpoints_steps=500 \
    --keep_checkpoint_max=1 --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# MRPC, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# SST-2, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SQuAD, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run1 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run2 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# SQuAD, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/SQuAD/run3 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD

# MRPC, bilstm, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC --bilstm_layers=2 --bilstm_units=128

# MRPC, bilstm, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC --bilstm_layers=2 --bilstm_units=128

# MRPC, bilstm, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC --bilstm_layers=2 --bilstm_units=128

# SST-2, bilstm, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2 --bilstm_layers=2 --bilstm_units=128

# SST-2, bilstm, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2 --bilstm_layers=2 --bilstm_units=128

# SST-2, bilstm, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2 --bilstm_layers=2 --bilstm_units=128

# SQuAD, bilstm, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SQuAD/run1 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD --bilstm_layers=2 --bilstm_units=128

# SQuAD, bilstm, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SQuAD/run2 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD --bilstm_layers=2 --bilstm_units=128

# SQuAD, bilstm, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1
python run_squad.py --do_train \
    --train_file=squad/train-v1.1-17articles.json,squadshifts/new_wiki_v1.0.json \
    --predict_file=squad/xquad.en.json --do_predict \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase2/bilstm/SQuAD/run3 \
    --max_seq_length=128 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.25 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --doc_stride=64 --do_eval --predict_batch_size=32 \
    --records_dir=paper/records/SQuAD --bilstm_layers=2 --bilstm_units=128

# Pre-training, mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1, steps 1 to 1,600 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L2_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.002 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --stop_after_steps=1600 \
    --sinusoidal_positions=0.08

# Pre-training, mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1, steps 1,601 to 2,000 at length 128
python run_pretraining.py --do_train \
    --resume_from=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase1 \
    --bert_config_file=paper/configs/L2_H128_A2.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --max_seq_length=128 --max_predictions_per_seq=39 --train_batch_size=32 \
    --learning_rate=0.002 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# MRPC, run 1, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 2, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 3, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2000/seed1/phase2/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# Pre-training, mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1, steps 1 to 1,600 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=paper/configs/L4_H256_A4.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --stop_after_steps=1600 \
    --sinusoidal_positions=0.08

# Pre-training, mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1, steps 1,601 to 2,000 at length 128
python run_pretraining.py --do_train \
    --resume_from=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase1 \
    --bert_config_file=paper/configs/L4_H256_A4.json \
    --vocab_file=paper/vocab.txt \
    '--input_file=paper/records/train_length128_mask80-10-10/train.tfrecord-*' \
    --output_dir=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --max_seq_length=128 --max_predictions_per_seq=39 --train_batch_size=32 \
    --learning_rate=0.001 --num_train_steps=2000 --num_warmup_steps=200 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=paper/records/held_out_length128_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# MRPC, run 1, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/MRPC/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 2, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/MRPC/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# MRPC, run 3, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/MRPC \
    --task_name=MRPC \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/MRPC/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=3 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/MRPC

# SST-2, run 1, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm_nsp, L4_H256_A4, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H256_A4_lr0.001_mask80-10-10_steps2000/seed1/phase2/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 500
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-500/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 1, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from mlm_nsp, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/mlm_nsp_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 1, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 2, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

# SST-2, run 3, from ltr, L4_H128_A2, masking 80/10/10, seed 1 at step 1,000
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=paper/pretraining/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000 \
    --output_dir=paper/finetuning/ltr_L4_H128_A2_mask80-10-10_steps2000/seed1/phase1/step-1000/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=paper/records/SST-2

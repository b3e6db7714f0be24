# Vocabulary of the training text
python build_vocab.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/vocab.txt --vocab_size=4096

# Records of corpus/train, length 64, masking 80/10/10
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask80-10-10/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=5

# Records of corpus/held_out, length 64, masking 80/10/10
python create_pretraining_data.py '--input_file=table8/corpus/held_out/*' \
    --output_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord@1 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.1 --dupe_factor=1

# Pre-training, mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask80-10-10/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --keep_steps=625,1250 \
    --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 80/10/10, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-10-10_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# Records of corpus/train, length 64, masking 100/0/0
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask100-0-0/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=1 \
    --random_token_prob=0 --dupe_factor=5

# Pre-training, mlm_nsp, L2_H128_A2, masking 100/0/0, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask100-0-0/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 100/0/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 100/0/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 100/0/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask100-0-0_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# Records of corpus/train, length 64, masking 80/0/20
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask80-0-20/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0.2 --dupe_factor=5

# Pre-training, mlm_nsp, L2_H128_A2, masking 80/0/20, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask80-0-20/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 80/0/20, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 80/0/20, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 80/0/20, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-0-20_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# Records of corpus/train, length 64, masking 80/20/0
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask80-20-0/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0.8 \
    --random_token_prob=0 --dupe_factor=5

# Pre-training, mlm_nsp, L2_H128_A2, masking 80/20/0, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask80-20-0/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 80/20/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 80/20/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 80/20/0, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask80-20-0_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# Records of corpus/train, length 64, masking 0/20/80
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask0-20-80/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0 \
    --random_token_prob=0.8 --dupe_factor=5

# Pre-training, mlm_nsp, L2_H128_A2, masking 0/20/80, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask0-20-80/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 0/20/80, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 0/20/80, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 0/20/80, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-20-80_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# Records of corpus/train, length 64, masking 0/0/100
python create_pretraining_data.py '--input_file=table8/corpus/train/*' \
    --output_file=table8/records/train_length64_mask0-0-100/train.tfrecord@8 \
    --vocab_file=table8/vocab.txt --max_seq_length=64 \
    --max_predictions_per_seq=20 --masked_lm_prob=0.3 --mask_token_prob=0 \
    --random_token_prob=1 --dupe_factor=5

# Pre-training, mlm_nsp, L2_H128_A2, masking 0/0/100, seed 1, steps 1 to 2,500 at length 64
python run_pretraining.py --do_train \
    --bert_config_file=table8/configs/L2_H128_A2.json \
    --vocab_file=table8/vocab.txt \
    '--input_file=table8/records/train_length64_mask0-0-100/train.tfrecord-*' \
    --output_dir=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1 \
    --max_seq_length=64 --max_predictions_per_seq=20 --train_batch_size=64 \
    --learning_rate=0.001 --num_train_steps=2500 --num_warmup_steps=250 \
    --random_seed=12345 --save_checkpoints_steps=500 --keep_checkpoint_max=1 \
    --bias_correction --dtype=bfloat16 --do_eval \
    '--eval_input_file=table8/records/held_out_length64_mask80-10-10/held_out.tfrecord-*' \
    --eval_batch_size=64 --max_eval_steps=100 --sinusoidal_positions=0.08

# SST-2, run 1, from mlm_nsp, L2_H128_A2, masking 0/0/100, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1/SST-2/run1 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=12345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 2, from mlm_nsp, L2_H128_A2, masking 0/0/100, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1/SST-2/run2 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=13345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

# SST-2, run 3, from mlm_nsp, L2_H128_A2, masking 0/0/100, seed 1
python run_classifier.py --do_train --data_dir=glue/SST-2 \
    --task_name=SST-2 \
    --init_checkpoint=table8/pretraining/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1 \
    --output_dir=table8/finetuning/mlm_nsp_L2_H128_A2_mask0-0-100_steps2500/seed1/phase1/SST-2/run3 \
    --max_seq_length=64 --train_batch_size=32 --learning_rate=0.0002 \
    --num_train_epochs=0.2 --random_seed=14345 --keep_checkpoint_max=1 \
    --dtype=bfloat16 --do_eval --eval_batch_size=32 \
    --records_dir=table8/records/SST-2

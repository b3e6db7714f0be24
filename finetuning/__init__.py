"""What all fine-tuning scripts share."""

"""Distillation: the teacher, and what a student of each task learns."""

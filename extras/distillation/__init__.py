"""Distillation: the teachers, and what a student of each task learns."""

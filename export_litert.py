"""The old name of export_saved_model.py --format=litert."""

from base import script

script.moved("python export_saved_model.py --format=litert --output=m.tflite")

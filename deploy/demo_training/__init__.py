"""Trains the two demo pairs: targets, teacher text, drafters, evaluation and model cards (README.md)."""

"""`import torch` that means needle, where a program asks for it; and what a program would miss."""

"""Calls that pass elements to one another become one tile program."""

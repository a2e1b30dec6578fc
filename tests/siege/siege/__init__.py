"""The siege of a real server: its victim, its bars and the order of things."""

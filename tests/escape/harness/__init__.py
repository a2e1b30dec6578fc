"""Runs attacks against a real server and looks at everything but the attacker's own word."""

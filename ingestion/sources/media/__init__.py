"""Recordings, sound and video: what they are, how long they are, and the stretches of time that stand for pages."""

"""The kernel both paths stand on; it imports nothing else of Perito's."""

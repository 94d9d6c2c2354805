"""Mail, as the standards write it (``mime``) and as Outlook keeps it (``outlook``): both make a ``letter``."""

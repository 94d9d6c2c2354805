"""Every prompt, one Markdown file per use; loaded by ``assistant.core.prompts``."""

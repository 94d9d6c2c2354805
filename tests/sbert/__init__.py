"""The extra ``sbert``, in an environment of its own (`make test-sbert`)."""

"""The real vLLM server on the CPU with a tiny Qwen3-VL: what is on the wire. Run by ``make test-vllm``."""

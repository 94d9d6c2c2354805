# Perito in a container: the default product, or, with the cluster's lock file, the assistant of compose.gpu.yaml.
# Everything comes from hash-locked wheels: no compiler, no libGL, no model hub.
#
# Docker does not run where this project is tested. `make test-image-steps` reads this file, runs its RUN steps in a
# fresh folder and starts what they built without privileges; the base image itself is not covered.

FROM python:3.11-slim-bookworm AS build
ARG LOCK=requirements.txt
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_CACHE=1
WORKDIR /build
COPY requirements-uv.txt ${LOCK} ./
RUN python3 -m venv /opt/perito && /opt/perito/bin/python -m pip install -q --require-hashes -r requirements-uv.txt
# The lock file is whole, so nothing is resolved here; bytecode is made now, since the running user may not write it.
RUN /opt/perito/bin/uv pip install -q -p /opt/perito --no-deps --require-hashes --compile-bytecode -r ${LOCK}
COPY . .
RUN /opt/perito/bin/uv pip install -q -p /opt/perito --no-deps --compile-bytecode . && /opt/perito/bin/uv pip uninstall -q -p /opt/perito uv

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Perito" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/perito /opt/perito
ENV PATH=/opt/perito/bin:$PATH PYTHONUNBUFFERED=1 PERITO_HOME=/var/lib/perito
# A person of its own; a fresh named volume takes over the folder's owner.
RUN useradd --system --uid 10001 --home-dir /var/lib/perito --create-home --shell /usr/sbin/nologin perito
USER 10001
WORKDIR /var/lib/perito
VOLUME /var/lib/perito
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
# SIGTERM ends the server in order; see stop_grace_period in the compose files.
ENTRYPOINT ["perito"]
CMD ["serve"]

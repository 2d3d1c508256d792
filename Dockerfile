# syntax=docker/dockerfile:1
# Two images: `docker build --target slim .` is Sluice alone, for workers whose steps need no Python; the other, which is the default, has
# Python, PyTorch and ONNX Runtime too, to train on local pools, compile and serve.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags "-s -w -X main.version=$VERSION" -o /out/sluice ./cmd/sluice && \
    CGO_ENABLED=0 go build -ldflags "-s -w -X main.version=$VERSION" -o /out/sluice-agent ./cmd/sluice-agent && \
    go build -ldflags '-s -w' -o /out/sluice-gpu ./cmd/sluice-gpu

FROM debian:bookworm-slim AS slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates tzdata wget && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --uid 10001 --create-home sluice && \
    install -d -o sluice -g sluice /var/lib/sluice
COPY --from=build /out/* /usr/local/bin/
ENV SLUICE_STATE=/var/lib/sluice
USER sluice
WORKDIR /home/sluice
VOLUME /var/lib/sluice
EXPOSE 8080 9464
# Answers once the worker works: see --metrics-listen.
HEALTHCHECK --interval=10s --start-period=60s CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9464/metrics"]
ENTRYPOINT ["sluice"]
CMD ["worker", "--metrics-listen=0.0.0.0:9464", "--serve-listen=0.0.0.0"]

FROM slim AS python
USER root
COPY examples/spam/requirements.txt /tmp/requirements.txt
RUN apt-get update && \
    apt-get install -y --no-install-recommends python3 python3-venv && \
    rm -rf /var/lib/apt/lists/* && \
    python3 -m venv /opt/sluice && \
    /opt/sluice/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch && \
    /opt/sluice/bin/pip install --no-cache-dir -r /tmp/requirements.txt && \
    rm /tmp/requirements.txt
ENV SLUICE_PYTHON_ENV=/opt/sluice PATH=/opt/sluice/bin:$PATH
USER sluice

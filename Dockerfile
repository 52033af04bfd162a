# The server alone, built from source: docker build -t thalweg .
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends clang libclang-dev cmake pkg-config zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release -p thalweg && cp target/release/thalweg /thalweg

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libstdc++6 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/thalweg thalweg
COPY --from=build /thalweg /usr/local/bin/thalweg
USER thalweg
VOLUME /var/lib/thalweg
EXPOSE 5460 5461
# Everybody who reaches the container is let in: publish its ports on loopback only, as docker-compose.yml does, or give it rules.
ENTRYPOINT ["thalweg"]
CMD ["serve", "--data-dir", "/var/lib/thalweg/data", "--pg-listen", "0.0.0.0:5460", "--trust-remote=true", "--http-listen", "0.0.0.0:5461", "--http-remote=true"]

# The command `lockkeeper` in an image of its own: one static program, no shell, no root.
#
#   docker build --tag lockkeeper .
#   docker run --rm -p 2181:2181 lockkeeper serve --listen 0.0.0.0:2181
#   docker run --rm lockkeeper queue --connect zk1:2181 /locks/backup
#
# `lockkeeper run` needs the command that it is to run. Copy the program into the image that has it:
#   COPY --from=lockkeeper /lockkeeper /usr/local/bin/lockkeeper
#
# Not tried yet: no image has been built from this file.
FROM rust:1-alpine AS build
# A C compiler and its headers, for ring.
RUN apk add --no-cache build-base
WORKDIR /lockkeeper
COPY . .
# Alpine's target is musl, so the program is static.
RUN cargo build --profile dist --locked -p lockkeeper-cli && strip target/dist/lockkeeper

FROM scratch
COPY --from=build /lockkeeper/target/dist/lockkeeper /lockkeeper
USER 65534:65534
ENTRYPOINT ["/lockkeeper"]

# One image for nodes with and without a GPU: the CUDA runtime is linked statically, the driver is found at run time.
#   docker build -t attnd .
#   docker run -p 8001:8001 -p 8002:8002 attnd                  on the CPU
#   docker run --gpus all -p 8001:8001 -p 8002:8002 attnd       on a GPU

FROM debian:12 AS build
ARG ATTND_CUDA=on
WORKDIR /src
# Packages and the CUDA compiler first: they change less often than the source.
COPY tools/lib tools/lib
RUN bash -euc '. tools/lib/build.sh; ensure_packages; ensure_cuda' && rm -rf /var/lib/apt/lists/*
COPY . .
RUN bash -euc '. tools/lib/build.sh; ensure_cuda; mkdir -p build; build_preset "$cuda_preset" attnd attnctl attnd_kernels_shared; \
    tools/bundle /bundle build/$cuda_preset/server/attnd build/$cuda_preset/client/attnctl/attnctl \
                 build/$cuda_preset/kernels/libattnd_kernels.so'

FROM debian:12-slim
COPY --from=build /bundle/bin/ /usr/local/bin/
COPY --from=build /bundle/lib/ /usr/local/lib/attnd/
RUN echo /usr/local/lib/attnd >/etc/ld.so.conf.d/attnd.conf && ldconfig && useradd --no-create-home --uid 10001 attnd
# What the NVIDIA container runtime mounts: the driver's compute library and NVML.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER attnd
EXPOSE 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["attnctl", "info", "--server=127.0.0.1:8001"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["attnd"]
CMD ["--bind-address=0.0.0.0"]

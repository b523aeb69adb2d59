"""Generates the gRPC stubs and their type stubs from the public contract when the package is built or installed."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO_ROOT = HERE.parent.parent / "proto"


class BuildWithStubs(build_py):
    def run(self):
        generate_stubs()
        super().run()


def generate_stubs():
    from grpc_tools import protoc

    protos = ["attnd/v1/attention.proto"]
    arguments = ["protoc", f"-I{PROTO_ROOT}", f"--python_out={HERE}", f"--pyi_out={HERE}", f"--grpc_python_out={HERE}"]
    if protoc.main(arguments + protos) != 0:
        sys.exit("attnd: could not generate the gRPC stubs")


setup(cmdclass={"build_py": BuildWithStubs})

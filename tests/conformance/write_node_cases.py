"""Writes the ONNX project's node conformance cases as files that the C++ test reads.

    write_node_cases.py FOLDER

FOLDER/cases.txt has a header line, then one line for each case, tab-separated:
    name  rtol  atol  numeric  operators  inputs  outputs
`numeric` is 1 when every input and output is a plain numeric array and the case is of the standard operator set: those
are the ones counted. Inputs and outputs are lists with spaces between: `t` a tensor, `sN` a sequence of N tensors, `n`
nothing, `?` something else (a map); their files follow in order, NAME/in_I.pb and NAME/out_I.pb (NAME/in_I_J.pb inside
a sequence), each a serialised TensorProto. NAME/model.onnx is the model.

Nothing is written when FOLDER is complete for the same version of onnx and of this script.
"""

import hashlib
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def is_plain_array(value):
    return isinstance(value, (np.ndarray, np.generic)) and np.asarray(value).dtype != object


def is_counted(case):
    domains = {opset.domain for opset in case.model.opset_import}
    if "training" in str(domains) or "ai.onnx.ml" in domains:
        return False
    inputs, outputs = case.data_sets[0]
    return all(map(is_plain_array, inputs)) and all(map(is_plain_array, outputs))


def operators(graph):
    found = set()
    for node in graph.node:
        found.add((node.domain + "." if node.domain else "") + node.op_type)
        for attribute in node.attribute:
            for body in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
                found |= operators(body)
    return found


def tensor_proto(value):
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return numpy_helper.from_array(np.asarray(value))
    return None


def write_value(stem, value):
    """Writes the value's files and returns its kind."""
    if value is None:
        return "n"
    items = [tensor_proto(item) for item in value] if isinstance(value, list) else [tensor_proto(value)]
    if any(item is None for item in items):
        return "?"
    for number, item in enumerate(items):
        name = f"{stem}_{number}.pb" if isinstance(value, list) else f"{stem}.pb"
        with open(name, "wb") as file:
            file.write(item.SerializeToString())
    return f"s{len(items)}" if isinstance(value, list) else "t"


def write_cases(folder):
    warnings.filterwarnings("ignore")  # cases overflow and divide by zero on purpose
    lines = ["name\trtol\tatol\tnumeric\toperators\tinputs\toutputs"]
    for case in collect_testcases(None):
        place = os.path.join(folder, case.name)
        os.makedirs(place)
        with open(os.path.join(place, "model.onnx"), "wb") as file:
            file.write(case.model.SerializeToString())
        inputs, outputs = case.data_sets[0]
        kinds = [
            " ".join(write_value(os.path.join(place, f"{direction}_{i}"), value) for i, value in enumerate(values))
            for direction, values in (("in", inputs), ("out", outputs))
        ]
        lines.append("\t".join([case.name, repr(float(case.rtol)), repr(float(case.atol)), str(int(is_counted(case))),
                                " ".join(sorted(operators(case.model.graph))), *kinds]))
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    folder = sys.argv[1]
    with open(__file__, "rb") as file:
        version = onnx.__version__ + " " + hashlib.sha256(file.read()).hexdigest()
    stamp = os.path.join(folder, "stamp")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == version:
                return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    write_cases(folder)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(version)


main()

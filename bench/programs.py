"""The programs whose runs are timed side by side, set up alike: so many threads, tensors passed without copies."""

import onnxruntime


def onnxruntime_run(path, threads):
    """A callable from an input set to the list of outputs.

    ONNX Runtime's threads go on spinning for tens of milliseconds after a run, on the cores that whatever is timed next
    should have; here they stop with the run.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def fixed(core, path, inputs):
    """The model for OpenVINO, with the shapes of these inputs."""
    model = core.read_model(path)
    model.reshape({port.any_name: list(inputs[port.any_name].shape) for port in model.inputs})
    return model


def openvino_run(core, model, precision, threads):
    """A callable from an input set to the list of outputs, which live until the next run."""
    request = core.compile_model(
        model, "CPU",
        {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads},
    ).create_infer_request()

    def run(inputs):
        request.infer(inputs, share_inputs=True, share_outputs=True)
        return [request.get_tensor(port).data for port in request.model_outputs]

    return run

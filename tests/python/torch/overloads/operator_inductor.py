# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Inductor lowers itself of a function, and what it leaves to ATen.

No code is compiled. Inductor's own path is taken up to its intermediate representation: Dynamo, AOTAutograd with
Inductor's decompositions and partitioner, its passes, and GraphLowering, which lowers each node of the forward and of the
backward graph. The graph then runs in eager mode. A node for which Inductor makes a FallbackKernel, or another kernel that
only calls ATen (ScatterFallback, IndexPutFallback, ...), is a fallback. Calls of libraries that Inductor chooses (mm, bmm,
convolution) are no fallbacks: for them, it has kernels of other kinds, ExternKernelOut and ExternKernelAlloc. A fault of
Inductor's C++ code generator, or of the compiler behind it, would not be seen.
"""

import functools

import torch
from torch import fx
from torch._inductor import compile_fx, ir
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V


def compiled(function, fallbacks):
    """The function, which when called adds the overloads that Inductor leaves to ATen to the set `fallbacks`."""
    lower = functools.partial(_lower, fallbacks)
    return torch.compile(function, backend=functools.partial(compile_fx.compile_fx, inner_compile=lower))


def _lower(fallbacks, module, example_inputs, *, is_inference=False, is_backward=False, get_decomp_fn=None, **_):
    """As compile_fx.codegen_and_compile does, without code generation."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    eager = fx.GraphModule(module, graph)  # a copy: the passes change the other
    shapes = compile_fx.shape_env_from_inputs(example_inputs)
    compile_fx.view_to_reshape(module)
    with torch.no_grad():
        fake_mode = compile_fx.fake_tensor_prop(module, example_inputs)
    compile_fx._recursive_record_original_output_strides(module)
    with V.set_fake_mode(fake_mode):
        compile_fx._recursive_post_grad_passes(module, is_inference=is_inference)
        graph = GraphLowering(module, example_inputs=example_inputs, shape_env=shapes, is_inference=is_inference,
                              is_backward=is_backward, get_decomp_fn=get_decomp_fn)
        graph.freeze_runtime_asserts()
        with V.set_graph_handler(graph), V.set_extern_kernel_nodes([]):
            graph.run(*example_inputs)
    for kernel in graph.operations:
        if isinstance(kernel, ir.FallbackKernel) or type(kernel).__name__.endswith("Fallback"):
            fallbacks.add(str(kernel.op_overload))

    def run(arguments):
        given = list(arguments)
        arguments.clear()
        return eager(*given)

    run._boxed_call = True
    return run

#include "tempera/pass/pipeline.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tempera/pass/cleanup/chains.h"
#include "tempera/pass/cleanup/common.h"
#include "tempera/pass/cleanup/constants.h"
#include "tempera/pass/cleanup/dead.h"
#include "tempera/pass/cleanup/factors.h"
#include "tempera/pass/cleanup/no_ops.h"
#include "tempera/pass/fold/constants.h"
#include "tempera/pass/fold/shapes.h"
#include "tempera/pass/fuse/affine.h"
#include "tempera/pass/fuse/batch_norm_before.h"
#include "tempera/pass/fuse/pad.h"
#include "tempera/pass/fuse/unshuffle.h"
#include "tempera/pass/fuse/upsample.h"
#include "tempera/pass/layout/delay_reshape.h"
#include "tempera/pass/layout/cancel_transposes.h"
#include "tempera/pass/layout/einsum_to_matmul.h"
#include "tempera/pass/layout/hoist_factor.h"
#include "tempera/pass/layout/merge_gemms.h"
#include "tempera/pass/layout/pool_by_planes.h"
#include "tempera/pass/layout/split_concat_conv.h"
#include "tempera/pass/layout/split_sliced_linear.h"
#include "tempera/pass/recognise/channel_attention.h"
#include "tempera/pass/recognise/gelu.h"
#include "tempera/pass/recognise/group_norm.h"
#include "tempera/pass/recognise/linear_attention.h"
#include "tempera/pass/recognise/layer_norm.h"
#include "tempera/pass/recognise/pixel_shuffle.h"
#include "tempera/pass/recognise/silu.h"

namespace tempera::pass {
namespace {

constexpr std::array kSteps = std::to_array<Step>({
    {{"remove_dead", "nodes and initialisers that nothing reads", remove_dead},
     "cleanup",
     "first: unread readers would keep others from firing"},
    {{"constants_to_initializers", "Constant nodes become initialisers", constants_to_initializers},
     "cleanup",
     "before everything that asks whether a value is constant, so that all see one kind"},
    {{"fold_shapes", "shape arithmetic on known dimensions becomes constants", fold_shapes},
     "fold",
     "before constant folding: needs no evaluator, and leaves less to it"},
    {{"fold_constants", "nodes on constants are computed", fold_constants},
     "fold",
     "once shapes are constants; before the patterns, which look for constant weights and limits"},
    {{"remove_no_ops", "nodes that change nothing", remove_no_ops},
     "cleanup",
     "after folding, which shows them; before the patterns, which they would interrupt"},
    {{"merge_casts", "Cast of Cast", merge_casts}, "cleanup", "chains are shortened before patterns look at neighbours"},
    {{"merge_transposes", "Transpose of Transpose", merge_transposes}, "cleanup", "as above"},
    {{"merge_reshapes", "Reshape of Reshape", merge_reshapes}, "cleanup", "as above; after shapes are constants"},
    {{"merge_slices", "Slice of Slice", merge_slices}, "cleanup", "before split_sliced_linear, which wants one Slice"},
    {{"merge_concats", "Concat of Concat; Concat of a Split", merge_concats}, "cleanup", "as above"},
    {{"cancel_transposes", "Transposes around element-wise work", cancel_transposes},
     "layout",
     "after merge_transposes, which takes those that are neighbours"},
    {{"drop_expand", "Expand before operators that broadcast", drop_expand},
     "cleanup",
     "once shapes are known; before the norms, which it would interrupt"},
    {{"merge_common", "equal work and equal constants once", merge_common},
     "cleanup",
     "after the chains, which make more nodes equal"},
    {{"fuse_batch_norm", "BatchNormalization into the weights before it", fuse_batch_norm},
     "fuse",
     "before fuse_scale: behind it may stand a scale of its own"},
    {{"fuse_batch_norm_before", "BatchNormalization into the weights behind it", fuse_batch_norm_before},
     "fuse",
     "after fuse_batch_norm, which needs no padding to be absent"},
    {{"fuse_batch_norm_padded", "BatchNormalization into the padded convolution behind it, with a constant for the border",
      fuse_batch_norm_padded},
     "fuse",
     "after fuse_batch_norm_before, which needs no constant"},
    {{"fuse_scale", "Mul, Div, Add, Sub by channel constants into the weights before them", fuse_scale},
     "fuse",
     "before split_sliced_linear, so that the parts inherit the scale"},
    {{"fuse_pad", "Pad into the convolution or pooling behind it", fuse_pad}, "fuse", "once pads are constants"},
    {{"gelu", "GELU written out, by erf or tanh", gelu},
     "recognise",
     "once its constants are initialisers"},
    {{"layer_norm", "LayerNormalization written out", layer_norm}, "recognise", "once axes are constants"},
    {{"rms_norm", "RMSNormalization written out", rms_norm}, "recognise", "after layer_norm, whose middle looks like it"},
    {{"pixel_shuffle", "pixel shuffle written as Reshape, Transpose, Reshape", pixel_shuffle},
     "recognise",
     "once reshapes are merged and shapes known"},
    {{"group_norm", "group normalisation in a form that keeps the layout of its input", group_norm},
     "recognise",
     "once shapes are constants and scales are merged"},
    {{"channel_attention", "attention over pixels in the form that engines compute in one kernel", channel_attention},
     "recognise",
     "before Einsums become products, which would hide it"},
    {{"delay_reshape", "factors and Splits move in front of a Reshape", delay_reshape},
     "layout",
     "so that they meet the convolution that made the value"},
    {{"split_sliced_linear", "a convolution or product that is only cut up becomes one for each piece",
      split_sliced_linear},
     "layout",
     "after everything that changes weights"},
    {{"linear_attention", "linear attention over pixels as convolutions and small products", linear_attention},
     "recognise",
     "once q, k and v have a convolution each"},
    {{"fuse_unshuffle", "pixel unshuffle into the 1x1 convolution behind it", fuse_unshuffle},
     "fuse",
     "once reshapes are merged and shapes known"},
    {{"pool_by_planes", "pooling over three axes of an input as pooling over two, then over the third", pool_by_planes},
     "layout",
     "after fuse_pad, which may give the pool its padding"},
    {{"fuse_upsample", "enlarging by nearest neighbour into the convolution behind it", fuse_upsample},
     "fuse",
     "after fuse_scale: a scale behind the convolution must be in its weights before they are summed"},
    {{"split_concat_conv", "a convolution of joined channels becomes a sum", split_concat_conv},
     "layout",
     "after fuse_scale and fuse_batch_norm, which want one convolution"},
    {{"silu_by_tanh", "x sigmoid(x) as x/2 (1 + tanh(x/2))", silu_by_tanh},
     "recognise",
     "after the norms, whose patterns may end in a SiLU"},
    {{"merge_factors", "constant factors in a row", merge_factors},
     "cleanup",
     "late: fuse_scale takes those behind a convolution, and patterns look for factors where exporters put them",
     true},
    {{"hoist_factor", "the scale of attention into the weights of its projections", hoist_factor},
     "layout",
     "late: patterns look for factors where exporters put them",
     true},
    {{"merge_gemms", "products of one row by several constant matrices into one", merge_gemms},
     "layout",
     "late: what stands behind one of them must have gone into its weights",
     true},
    {{"einsum_to_matmul", "Einsum of two operands", einsum_to_matmul},
     "layout",
     "late: patterns that look for an Einsum must have had their turn with all shapes known",
     true},
});

}  // namespace

std::span<const Step> pipeline() { return kSteps; }

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  std::transform(kSteps.begin(), kSteps.end(), std::back_inserter(names),
                 [](const Step& step) { return std::string(step.pass.name); });
  return names;
}

std::string pipeline_table() {
  std::string table = "| pass | group | what it rewrites | why it stands there |\n| --- | --- | --- | --- |\n";
  for (const Step& step : kSteps) {
    table += fmt::format("| {} | {} | {} | {} |\n", step.pass.name, step.group, step.pass.summary, step.why_here);
  }
  return table;
}

}  // namespace tempera::pass

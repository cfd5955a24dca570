#include "tempera/compress/prune/coupling.h"

#include "tempera/compress/prune/test_support.h"

namespace tempera::compress {
namespace {

using testing::expect_prunes;
using testing::only;
using testing::parse;
using testing::shape;

ChannelOptions half() {
  ChannelOptions options;
  options.pruning_ratio = 0.5;
  return options;
}

TEST(CouplingTest, ProducerBatchNormAndReaderShrinkTogether) {
  const graph::Model model = parse(R"(
    g (float[2,3,8,8] x, float[8,3,3,3] w, float[8] b, float[8] s, float[8] o, float[8] m, float[8] v, float[5,8,1,1] u)
      => (float[2,5,6,6] y) {
      c = Conv(x, w, b)
      a = Abs(v)
      n = BatchNormalization(c, s, o, m, a)
      r = Relu(n)
      y = Conv(r, u)
    })",
                                   21, {"w", "b", "s", "o", "m", "v", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "w"), "[4,3,3,3]");
  EXPECT_EQ(shape(pruned, "s"), "[4]");
  EXPECT_EQ(shape(pruned, "u"), "[5,4,1,1]");
  EXPECT_EQ(shape(pruned, "r"), "[2,4,6,6]");
}

TEST(CouplingTest, AResidualTiesBothProducers) {
  const graph::Model model = parse(R"(
    g (float[1,3,6,6] x, float[8,3,1,1] w, float[8,8,3,3] v, float[2,8,1,1] u) => (float[1,2,6,6] y) {
      a = Conv(x, w)
      b = Conv<pads = [1,1,1,1]>(a, v)
      s = Add(a, b)
      y = Conv(s, u)
    })",
                                   21, {"w", "v", "u"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_EQ(shape(pruned.model, "v"), "[4,4,3,3]");
  ASSERT_EQ(pruned.groups.size(), 1U);
  EXPECT_EQ(pruned.groups[0].layers, (std::vector<std::string>{"a", "b"}));
}

TEST(CouplingTest, ConcatKeepsOffsetsApartAndSplitGetsNewSizes) {
  const graph::Model model = parse(R"(
    g (float[1,3,6,6] x, float[4,3,1,1] w, float[8,3,1,1] v, float[2,6,1,1] u, float[2,6,1,1] t)
      => (float[1,2,6,6] y, float[1,2,6,6] z) {
      a = Conv(x, w)
      b = Conv(x, v)
      c = Concat<axis = 1>(a, b)
      p, q = Split<axis = 1, num_outputs = 2>(c)
      y = Conv(p, u)
      z = Conv(q, t)
    })",
                                   18, {"w", "v", "u", "t"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_EQ(shape(pruned.model, "w"), "[2,3,1,1]");
  EXPECT_EQ(shape(pruned.model, "p"), "[1,3,6,6]");  // two of a's four, one of b's first two
  EXPECT_EQ(shape(pruned.model, "q"), "[1,3,6,6]");
  EXPECT_EQ(pruned.groups.size(), 3U);
}

TEST(CouplingTest, SliceBoundsMove) {
  const graph::Model model = parse(R"(
    g (float[1,3,6,6] x, float[8,3,1,1] w, float[2,3,1,1] u)
      => (float[1,2,6,6] y) <int64[1] b = {5}, int64[1] e = {100}, int64[1] a = {1}> {
      c = Conv(x, w)
      s = Slice(c, b, e, a)
      y = Conv(s, u)
    })",
                                   17, {"w", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "s"), "[1,2,6,6]");
}

TEST(CouplingTest, GroupNormalisationLosesWholeGroups) {
  const graph::Model model = parse(R"(
    g (float[1,3,6,6] x, float[12,3,1,1] w, float[12] s, float[12] o, float[2,12,1,1] u) => (float[1,2,6,6] y) {
      c = Conv(x, w)
      n = GroupNormalization<num_groups = 4>(c, s, o)
      y = Conv(n, u)
    })",
                                   21, {"w", "s", "o", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "w"), "[6,3,1,1]");
  EXPECT_EQ(pruned.graph.attribute<std::int64_t>(only(pruned, "GroupNormalization"), "num_groups", 0), 2);
}

TEST(CouplingTest, GroupNormalisationWrittenWithInstanceNormalisation) {
  const graph::Model model = parse(R"(
    g (float[N,3,6,6] x, float[12,3,1,1] w, float[4] s, float[4] o, float[12,1,1] k, float[2,12,1,1] u)
      => (float[N,2,6,6] y) <int64[3] groups = {0, 4, -1}> {
      c = Conv(x, w)
      r = Reshape(c, groups)
      n = InstanceNormalization(r, s, o)
      d = Shape(c)
      b = Reshape(n, d)
      m = Mul(b, k)
      y = Conv(m, u)
    })",
                                   18, {"w", "s", "o", "k", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "w"), "[6,3,1,1]");
  EXPECT_EQ(shape(pruned, "s"), "[2]");
  EXPECT_EQ(shape(pruned, "k"), "[6,1,1]");
}

TEST(CouplingTest, DepthwiseAndGroupedConvolutionsCountTheirGroups) {
  const graph::Model model = parse(R"(
    g (float[1,3,6,6] x, float[8,3,1,1] w, float[8,1,3,3] d, float[12,2,1,1] q, float[2,12,1,1] u) => (float[1,2,4,4] y) {
      a = Conv(x, w)
      b = Conv<group = 8>(a, d)
      c = Conv<group = 4>(b, q)
      y = Conv(c, u)
    })",
                                   21, {"w", "d", "q", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "w"), "[4,3,1,1]");
  EXPECT_EQ(shape(pruned, "d"), "[4,1,3,3]");
  EXPECT_EQ(shape(pruned, "q"), "[6,2,1,1]");
  EXPECT_EQ(shape(pruned, "u"), "[2,6,1,1]");
}

TEST(CouplingTest, TransposedConvolutions) {
  const graph::Model model = parse(R"(
    g (float[1,3,4,4] x, float[8,3,1,1] w, float[8,6,2,2] t, float[6] b, float[6,2,2,2] g2, float[2,4,1,1] u)
      => (float[1,2,16,16] y) {
      a = Conv(x, w)
      c = ConvTranspose<strides = [2,2]>(a, t, b)
      d = ConvTranspose<strides = [2,2], group = 2>(c, g2)
      y = Conv(d, u)
    })",
                                   21, {"w", "t", "b", "g2", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "t"), "[4,3,2,2]");
  EXPECT_EQ(shape(pruned, "g2"), "[3,2,2,2]");
  EXPECT_EQ(shape(pruned, "u"), "[2,2,1,1]");
}

TEST(CouplingTest, AttentionLosesWholeHeads) {
  const graph::Model model = parse(R"(
    g (float[2,5,6] x, float[6,16] wq, float[6,16] wk, float[6,16] wv, float[16,6] wo)
      => (float[2,5,6] y) <int64[4] heads = {0, 0, 4, 4}, int64[3] flat = {0, 0, 16}> {
      q = MatMul(x, wq)
      k = MatMul(x, wk)
      v = MatMul(x, wv)
      qr = Reshape(q, heads)
      kr = Reshape(k, heads)
      vr = Reshape(v, heads)
      qh = Transpose<perm = [0,2,1,3]>(qr)
      kh = Transpose<perm = [0,2,3,1]>(kr)
      vh = Transpose<perm = [0,2,1,3]>(vr)
      s = MatMul(qh, kh)
      p = Softmax<axis = -1>(s)
      o = MatMul(p, vh)
      t = Transpose<perm = [0,2,1,3]>(o)
      f = Reshape(t, flat)
      y = MatMul(f, wo)
    })",
                                   17, {"wq", "wk", "wv", "wo"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_EQ(shape(pruned.model, "wq"), "[6,8]");
  EXPECT_EQ(shape(pruned.model, "wo"), "[8,6]");
  EXPECT_EQ(shape(pruned.model, "p"), "[2,2,5,5]");
  ASSERT_EQ(pruned.groups.size(), 1U);
  EXPECT_EQ(pruned.groups[0].channels_before, 16);
  EXPECT_EQ(pruned.groups[0].channels_after, 8);
}

TEST(CouplingTest, QueriesKeysAndValuesOfOneProductAreNotTheHeads) {
  const graph::Model model = parse(R"(
    g (float[2,5,6] x, float[6,48] w, float[16,6] wo)
      => (float[2,5,6] y) <int64[5] heads = {0, 0, 3, 4, 4}, int64[3] flat = {0, 0, -1}, int64 i0 = {0}, int64 i1 = {1},
                           int64 i2 = {2}> {
      a = MatMul(x, w)
      r = Reshape(a, heads)
      t = Transpose<perm = [2,0,3,1,4]>(r)
      q = Gather<axis = 0>(t, i0)
      k = Gather<axis = 0>(t, i1)
      v = Gather<axis = 0>(t, i2)
      e = Einsum<equation = "bhid,bhjd->bhij">(q, k)
      p = Softmax<axis = -1>(e)
      o = Einsum<equation = "bhij,bhjd->bihd">(p, v)
      f = Reshape(o, flat)
      y = MatMul(f, wo)
    })",
                                   17, {"w", "wo"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "w"), "[6,24]");
  EXPECT_EQ(shape(pruned, "e"), "[2,2,5,5]");
}

TEST(CouplingTest, PixelShuffleTakesBlocks) {
  for (const char* mode : {"DCR", "CRD"}) {
    const graph::Model model = parse(std::string(R"(
      g (float[1,3,4,4] x, float[16,3,1,1] w, float[2,4,1,1] u) => (float[1,2,8,8] y) {
        a = Conv(x, w)
        b = DepthToSpace<blocksize = 2, mode = ")") +
                                         mode + R"(">(a)
        y = Conv(b, u)
      })",
                                     17, {"w", "u"});
    const graph::Model pruned = expect_prunes(model, half()).model;
    EXPECT_EQ(shape(pruned, "w"), "[8,3,1,1]") << mode;
    EXPECT_EQ(shape(pruned, "u"), "[2,2,1,1]") << mode;
  }
}

TEST(CouplingTest, FlattenBeforeGemmTakesWholePictures) {
  const graph::Model model = parse(R"(
    g (float[N,3,4,4] x, float[8,3,1,1] w, float[32,5] u, float[5] b) => (float[N,5] y) {
      a = Conv(x, w)
      p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(a)
      f = Flatten(p)
      y = Gemm(f, u, b)
    })",
                                   17, {"w", "u", "b"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "u"), "[16,5]");
}

TEST(CouplingTest, PadResizeReduceAndExpandAreFollowed) {
  const graph::Model model = parse(R"(
    g (float[1,3,4,4] x, float[8,3,1,1] w, float[2,8,1,1] u) => (float[1,2,12,12] y)
      <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[4] sizes = {1, 8, 12, 12}, int64[1] one = {1},
       int64[4] wide = {1, 8, 12, 12}, float low = {0.001}> {
      a = Conv(x, w)
      p = Pad(a, pads)
      r = Resize<mode = "nearest">(p, , , sizes)
      n = ReduceL2(r, one)
      c = Clip(n, low)
      e = Expand(c, wide)
      d = Div(r, e)
      y = Conv(d, u)
    })",
                                   18, {"w", "u"});
  const graph::Model pruned = expect_prunes(model, half(), false).model;
  EXPECT_EQ(shape(pruned, "r"), "[1,4,12,12]");
  EXPECT_EQ(shape(pruned, "e"), "[1,4,12,12]");
}

TEST(CouplingTest, RmsNormalisationKeepsTheMeanOverAllThatThereWas) {
  const graph::Model model = parse(R"(
    g (float[2,5,6] x, float[6,8] w, float[8] s, float[8,3] u) => (float[2,5,3] y) {
      a = MatMul(x, w)
      n = RMSNormalization<axis = -1, epsilon = 0.5>(a, s)
      y = MatMul(n, u)
    })",
                                   23, {"w", "s", "u"});
  const ChannelPruned pruned = expect_prunes(model, half(), false);
  EXPECT_EQ(shape(pruned.model, "n"), "[2,5,4]");
  EXPECT_FALSE(pruned.groups.at(0).approximate);
}

TEST(CouplingTest, LayerNormalisationIsSaidToBeApproximate) {
  const graph::Model model = parse(R"(
    g (float[2,5,6] x, float[6,8] w, float[8] s, float[8] b, float[8,3] u) => (float[2,5,3] y) {
      a = MatMul(x, w)
      n = LayerNormalization(a, s, b)
      y = MatMul(n, u)
    })",
                                   17, {"w", "s", "b", "u"});
  const ChannelPruned pruned = prune_channels(model, half());
  onnx::check_model(pruned.model);
  EXPECT_EQ(shape(pruned.model, "s"), "[4]");
  EXPECT_TRUE(pruned.groups.at(0).approximate);
}

TEST(CouplingTest, ComputedSizesGetTheDifference) {
  const graph::Model model = parse(R"(
    g (float[N,3,4,4] x, float[8,3,1,1] w, float[8,5] u) => (float[M,5] y)
      <int64[1] zero = {0}, int64[1] eight = {8}, int64[1] rest = {-1}> {
      a = Conv(x, w)
      p = GlobalAveragePool(a)
      s = Shape(x)
      n = Gather(s, zero)
      t = Concat<axis = 0>(n, eight)
      f = Reshape(p, t)
      y = MatMul(f, u)
    })",
                                   17, {"w", "u"});
  const graph::Model pruned = expect_prunes(model, half()).model;
  EXPECT_EQ(shape(pruned, "u"), "[4,5]");
}

TEST(CouplingTest, WeightsThatLayersShareAreCutApart) {
  const graph::Model model = parse(R"(
    g (float[1,4,4,4] x, float[4,4,1,1] w, float[4,1,1] k, float[2,4,1,1] u) => (float[1,2,4,4] y) {
      a = Conv(x, w)
      b = Mul(a, k)
      c = Relu(b)
      d = Conv(c, w)
      e = Mul(d, k)
      y = Conv(e, u)
    })",
                                   17, {"w", "k", "u"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_EQ(pruned.groups.size(), 2U);
  EXPECT_EQ(shape(pruned.model, "a"), "[1,2,4,4]");
  EXPECT_EQ(shape(pruned.model, "d"), "[1,2,4,4]");
}

TEST(CouplingTest, ForwardAndBackwardPartsOfAForceFieldAreCutAlike) {
  const graph::Model model = parse(R"(
    g (float[5,4] x, float[4,8] w, float[8,1] v, float[5,1] ones, float[1,8] vt)
      => (float[5,1] energy, float[5,4] force) <float one = {1.0}> {
      h = MatMul(x, w)
      t = Tanh(h)
      energy = MatMul(t, v)
      tt = Mul(t, t)
      d = Sub(one, tt)
      o = MatMul(ones, vt)
      q = Mul(o, d)
      wt = Transpose(w)
      force = MatMul(q, wt)
    })",
                                   17, {"w", "v", "vt"});
  const ChannelPruned pruned = expect_prunes(model, half(), false);
  ASSERT_EQ(pruned.groups.size(), 1U);
  EXPECT_EQ(shape(pruned.model, "h"), "[5,4]");
  EXPECT_EQ(shape(pruned.model, "vt"), "[1,4]");
  EXPECT_EQ(shape(pruned.model, "wt"), "[4,4]");
  EXPECT_EQ(shape(pruned.model, "w"), "[4,4]");  // one cut for both uses
}

TEST(CouplingTest, WhatIsNotFollowedStaysAndIsNamed) {
  const graph::Model model = parse(R"(
    g (float[1,3,4,4] x, float[8,3,1,1] w, float[8,8,1,1] v, float[2,8,1,1] u) => (float[1,2,4,4] y) {
      a = Conv(x, w)
      s = Softmax<axis = 1>(a)
      b = Conv(s, v)
      l = LRN<size = 3>(b)
      y = Conv(l, u)
    })",
                                   17, {"w", "v", "u"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_TRUE(pruned.groups.empty());
  ASSERT_EQ(pruned.barriers.size(), 3U);
  EXPECT_EQ(pruned.barriers[0].layer, "a");
  EXPECT_EQ(pruned.barriers[0].node, "s");
  EXPECT_EQ(pruned.barriers[0].channels, 8);
  EXPECT_EQ(pruned.barriers[1].node, "l");
  EXPECT_EQ(pruned.barriers[1].reason, "what LRN does to channels is not known");
  EXPECT_EQ(pruned.barriers[2].reason, "graph output 'y' keeps its shape");
}

TEST(CouplingTest, IgnoredLayersKeepTheirWeights) {
  graph::Model model = parse(R"(
    g (float[1,3,4,4] x, float[8,3,1,1] w, float[8,8,1,1] v, float[8,8,1,1] t, float[2,8,1,1] u) => (float[1,2,4,4] y) {
      a = Conv(x, w)
      b = Conv(a, v)
      c = Conv(b, t)
      y = Conv(c, u)
    })",
                             17, {"w", "v", "t", "u"});
  model.graph.set_name(model.graph.producer(model.graph.find_value("b").value()), "middle");
  ChannelOptions options = half();
  options.ignore = {"middle"};
  const graph::Model pruned = expect_prunes(model, options).model;
  EXPECT_EQ(shape(pruned, "v"), "[8,8,1,1]");
  EXPECT_EQ(shape(pruned, "t"), "[4,8,1,1]");
  options.ignore = {"c"};  // no name of its own: its output's
  EXPECT_EQ(shape(expect_prunes(model, options).model, "t"), "[8,8,1,1]");
  options.ignore = {"midle"};
  EXPECT_THROW((void)prune_channels(model, options), Error);
}

TEST(CouplingTest, BodiesKeepWhatTheyRead) {
  const graph::Model model = parse(R"(
    g (float[1,3,4,4] x, bool t, float[8,3,1,1] w, float[2,8,1,1] u) => (float[1,2,4,4] y) {
      a = Conv(x, w)
      b = If(t) <then_branch = th () => (float[1,8,4,4] p) { p = Relu(a) },
                 else_branch = el () => (float[1,8,4,4] q) { q = Neg(a) }>
      y = Conv(b, u)
    })",
                                   17, {"w", "u"});
  const ChannelPruned pruned = expect_prunes(model, half());
  EXPECT_TRUE(pruned.groups.empty());
}

}  // namespace
}  // namespace tempera::compress

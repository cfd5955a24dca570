// Random networks of what real ones are made of, pruned at random: the result must compute what the original
// computes with the removed channels silent.

#include <random>

#include "tempera/compress/prune/test_support.h"
#include "tempera/ops/builder.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::ValueId;

// A picture [N, channels, size, size].
struct Map {
  ValueId value;
  std::int64_t channels = 0;
  std::int64_t size = 0;
};

class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {
    model_.ir_version = 10;
    model_.opsets[""] = pick({17, 18, 21});
    model_.graph.name = "random";
  }

  graph::Model build() {
    const std::int64_t input_channels = pick({1, 3, 4});
    const ValueId x = model_.graph.add_input(
        "x", graph::ValueType::tensor(graph::DataType::kFloat32,
                                      graph::Shape{graph::Dim(std::string("N")), input_channels, 8, 8}));
    maps_.push_back(conv({x, input_channels, 8}, pick({8, 12, 16}), 3));
    const std::int64_t steps = pick({6, 9, 12});
    for (std::int64_t i = 0; i < steps; ++i) {
      maps_.push_back(step(maps_.back()));
    }
    finish(maps_.back());
    onnx::infer_types(model_);
    return std::move(model_);
  }

 private:
  std::int64_t pick(std::initializer_list<std::int64_t> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }

  ops::Builder builder() { return {model_.graph, model_.opset(), "n" + std::to_string(next_++)}; }

  ValueId weight(const Dims& dims) {
    return builder().constant(pass::testing::random_tensor(graph::DataType::kFloat32, dims, random_()));
  }

  Map conv(Map x, std::int64_t channels, std::int64_t kernel, std::int64_t group = 1) {
    const std::int64_t pad = kernel / 2;
    std::vector<ValueId> inputs = {x.value, weight({channels, x.channels / group, kernel, kernel})};
    if (random_() % 2 == 0) {
      inputs.push_back(weight({channels}));
    }
    return {builder().node("Conv", inputs, {{"pads", Dims{pad, pad, pad, pad}}, {"group", group}}), channels,
            x.size};
  }

  ValueId node(std::string_view op, std::vector<ValueId> inputs, ops::Builder::Attributes attributes = {}) {
    return builder().node(op, std::move(inputs), std::move(attributes));
  }

  Map activate(Map x) {
    switch (random_() % 4) {
      case 0: x.value = node("Relu", {x.value}); break;
      case 1: x.value = node("Mul", {x.value, node("Sigmoid", {x.value})}); break;
      case 2: x.value = node("PRelu", {x.value, weight({x.channels, 1, 1})}); break;
      default: x.value = node("Tanh", {x.value}); break;
    }
    return x;
  }

  Map residual(Map x) {
    const Map y = conv(activate(conv(x, pick({8, 16}), 3)), x.channels, 3);
    return {node("Add", {x.value, y.value}), x.channels, x.size};
  }

  // With any earlier picture of the same size: skips of every length.
  Map join(Map x) {
    std::vector<Map> fitting;
    for (const Map& map : maps_) {
      if (map.size == x.size) {
        fitting.push_back(map);
      }
    }
    const Map other = fitting.empty() ? conv(x, 8, 1) : fitting[random_() % fitting.size()];
    const Map joined = {node("Concat", {x.value, other.value}, {{"axis", std::int64_t{1}}}),
                        x.channels + other.channels, x.size};
    return conv(joined, pick({8, 12, 16}), 1);
  }

  Map batch_norm(Map x) {
    const ValueId variance = builder().constant(graph::Tensor::from<float>(
        {x.channels},
        std::span<const float>(std::vector<float>(static_cast<std::size_t>(x.channels), 1.5F))));
    x.value = node("BatchNormalization",
                   {x.value, weight({x.channels}), weight({x.channels}), weight({x.channels}), variance});
    return x;
  }

  // The form of exporters: groups in front, InstanceNormalization, back to the shape of the picture.
  Map group_norm(Map x) {
    const std::int64_t groups = x.channels % 4 == 0 ? pick({2, 4}) : 1;
    const ValueId grouped = node("Reshape", {x.value, builder().ints({0, groups, -1})});
    const ValueId normal = node("InstanceNormalization", {grouped, weight({groups}), weight({groups})});
    const ValueId back = node("Reshape", {normal, node("Shape", {x.value})});
    x.value = node("Add", {node("Mul", {back, weight({x.channels, 1, 1})}), weight({x.channels, 1, 1})});
    return x;
  }

  // Scale and shift by two halves of one convolution.
  Map modulate(Map x) {
    const Map both = conv(x, 2 * x.channels, 1);
    const std::vector<ValueId> halves = builder().split(both.value, 1, {x.channels, x.channels});
    return {node("Add", {node("Mul", {x.value, halves[0]}), halves[1]}), x.channels, x.size};
  }

  Map slice(Map x) {
    const std::int64_t from = x.channels / 4;
    return {builder().slice(x.value, {from}, {x.channels}, {1}), x.channels - from, x.size};
  }

  Map squeeze_excite(Map x) {
    const Map pooled = {node("GlobalAveragePool", {x.value}), x.channels, 1};
    const Map gate = conv(activate(conv(pooled, 4, 1)), x.channels, 1);
    return {node("Mul", {x.value, node("Sigmoid", {gate.value})}), x.channels, x.size};
  }

  // Over the pixels, with heads in front: [N, h d, S, S] -> [N, h, d, S*S].
  Map attention(Map x) {
    const std::int64_t heads = pick({2, 4});
    const std::int64_t width = 4;
    const Map all = conv(x, 3 * heads * width, 1);
    const std::vector<ValueId> parts =
        builder().split(all.value, 1, {heads * width, heads * width, heads * width});
    std::vector<ValueId> qkv;
    for (const ValueId part : parts) {
      qkv.push_back(node("Reshape", {part, builder().ints({-1, heads, width, x.size * x.size})}));
    }
    const ValueId scores = node("MatMul", {builder().transpose(qkv[0], {0, 1, 3, 2}), qkv[1]});
    const ValueId weights = node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const ValueId mixed = node("MatMul", {qkv[2], builder().transpose(weights, {0, 1, 3, 2})});
    const Map flat = {node("Reshape", {mixed, builder().ints({-1, heads * width, x.size, x.size})}),
                      heads * width, x.size};
    const Map out = conv(flat, x.channels, 1);
    return {node("Add", {x.value, out.value}), x.channels, x.size};
  }

  Map down(Map x) {
    if (x.size < 4) {
      return conv(x, x.channels, 3);
    }
    if (random_() % 2 == 0) {
      x.value = node("MaxPool", {x.value}, {{"kernel_shape", Dims{2, 2}}, {"strides", Dims{2, 2}}});
    } else {
      const ValueId cut =
          node("Reshape", {x.value, builder().ints({-1, x.channels, x.size / 2, 2, x.size / 2, 2})});
      const ValueId turned = builder().transpose(cut, {0, 1, 3, 5, 2, 4});
      x.value = node("Reshape", {turned, builder().ints({-1, 4 * x.channels, x.size / 2, x.size / 2})});
      x.channels *= 4;
      x.size /= 2;
      return conv(x, 8, 1);
    }
    x.size /= 2;
    return x;
  }

  Map up(Map x) {
    if (x.size > 8) {
      return conv(x, x.channels, 1);
    }
    if (random_() % 2 == 0) {
      const Map wide = conv(x, 4 * 6, 1);
      return {
          node("DepthToSpace", {wide.value},
               {{"blocksize", std::int64_t{2}}, {"mode", std::string(random_() % 2 == 0 ? "CRD" : "DCR")}}),
          6, 2 * x.size};
    }
    const ValueId scales = builder().constant(graph::Tensor::from<float>({4}, {1.0F, 1.0F, 2.0F, 2.0F}));
    return {node("Resize", {x.value, {}, scales}, {{"mode", std::string("nearest")}}), x.channels,
            2 * x.size};
  }

  Map step(Map x) {
    switch (random_() % 12) {
      case 0: return residual(x);
      case 1: return join(x);
      case 2: return activate(batch_norm(x));
      case 3: return group_norm(x);
      case 4: return modulate(x);
      case 5: return slice(x);
      case 6: return squeeze_excite(x);
      case 7: return attention(x);
      case 8: return down(x);
      case 9: return up(x);
      case 10: return activate(conv(x, x.channels, 3, x.channels));  // depthwise
      default: return activate(x.channels % 4 == 0 ? conv(x, pick({8, 16}), 3, 4) : conv(x, 8, 3));
    }
  }

  void finish(Map x) {
    const Map y = conv(x, 3, 1);
    const ValueId flat = node("Flatten", {node("GlobalAveragePool", {x.value})});
    const ValueId logits =
        node("Gemm", {flat, weight({5, x.channels}), weight({5})}, {{"transB", std::int64_t{1}}});
    model_.graph.rename(y.value, "picture");
    model_.graph.rename(logits, "logits");
    model_.graph.add_output(y.value);
    model_.graph.add_output(logits);
    for (const ValueId output : model_.graph.outputs()) {
      model_.graph.set_type(output, graph::ValueType::tensor(graph::DataType::kFloat32, std::nullopt));
    }
  }

  std::mt19937_64 random_;
  graph::Model model_;
  std::vector<Map> maps_;
  int next_ = 0;
};

TEST(RandomGraphsTest, PrunedNetworksComputeWhatSilencedOnesDo) {
  constexpr std::uint64_t kFirstSeed = 1;
  constexpr std::uint64_t kNetworks = 40;
  std::int64_t removed = 0;
  std::int64_t shrunk = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kNetworks; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph::Model model = Network(seed).build();
    std::mt19937_64 random(seed);
    ChannelOptions options;
    options.pruning_ratio = 0.2 + 0.1 * static_cast<double>(random() % 5);
    options.global = random() % 2 == 0;
    options.norm = random() % 2 == 0 ? WeightNorm::kL1 : WeightNorm::kL2;
    options.align = random() % 3 == 0 ? 4 : 1;
    // Heads and groups go whole, so nothing else sees a removed channel: silent where it is read is silent
    // everywhere.
    const ChannelPruned pruned = testing::expect_prunes(model, options);
    removed += testing::count_removed({{}, pruned.groups});
    shrunk += weight_size(pruned.model.graph).elements < weight_size(model.graph).elements ? 1 : 0;
    if (::testing::Test::HasFailure()) {
      FAIL() << onnx::print_text(model).substr(0, 20000);
    }
  }
  EXPECT_GE(shrunk, 38);  // the analysis is not right by pruning nothing
  EXPECT_GE(removed, 38 * 10);
}

}  // namespace
}  // namespace tempera::compress

#include <cmath>
#include <limits>
#include <optional>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [N, S, heads D] -> [N, heads, S, D]
at::Tensor split_heads(const KernelContext& context, const at::Tensor& x, std::int64_t heads) {
  if (x.dim() != 3 || heads < 1 || x.size(2) % heads != 0) {
    context.fail(
        fmt::format("{} heads do not divide the last axis of {}", heads, graph::to_string(x.sizes())));
  }
  return x.unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2);
}

/// [N, heads, S, D] -> [N, S, heads D]
at::Tensor join_heads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2, 3); }

/// Each key or value head serves as many query heads in a row: [N, kv, S, D] -> [N, heads, S, D]
at::Tensor share_heads(const KernelContext& context, const at::Tensor& x, std::int64_t heads) {
  if (x.size(1) == heads) {
    return x;
  }
  if (x.size(1) == 0 || heads % x.size(1) != 0) {
    context.fail(fmt::format("{} query heads are no multiple of {} key and value heads", heads, x.size(1)));
  }
  return x.repeat_interleave(heads / x.size(1), 1);
}

/// 0 where `allowed`, -infinity elsewhere.
at::Tensor additive(const at::Tensor& allowed, const at::TensorOptions& options) {
  return at::where(allowed, at::zeros({}, options), at::full({}, -kInfinity, options));
}

std::optional<at::ScalarType> softmax_type(const KernelContext& context) {
  const std::optional<std::int64_t> number = context.attribute<std::int64_t>("softmax_precision");
  if (!number) {
    return std::nullopt;
  }
  const auto type = static_cast<DataType>(*number);
  if (type != DataType::kFloat32 && type != DataType::kFloat64 && type != DataType::kFloat16 &&
      type != DataType::kBfloat16) {
    context.fail(fmt::format("attribute 'softmax_precision' is {}, expected a float type", *number));
  }
  return carrier(type);
}

/// Rounds to `type` but goes on in the type kernels compute in.
at::Tensor rounded_to(const at::Tensor& x, at::ScalarType type) { return widened(x.to(type)); }

/// Softmax over the last axis with each step rounded to `precision`, as the operator's function body computes
/// it.
at::Tensor stepwise_softmax(const at::Tensor& scores, at::ScalarType precision) {
  if (compute_type(precision) == precision) {
    return at::softmax(scores.to(precision), -1);
  }
  const at::Tensor x = rounded_to(scores, precision);
  at::Tensor largest = at::amax(x, -1, true);
  largest = at::where(largest.eq(-kInfinity), at::zeros({}, x.options()), largest);
  const at::Tensor powers = rounded_to(at::exp(rounded_to(x - largest, precision)), precision);
  return rounded_to(powers / rounded_to(powers.sum(-1, true), precision), precision);
}

/// The bias added to the scores, from the mask, causality, the window and the padding of the cache:
/// broadcastable to [N, heads, Q, K]. Undefined when nothing is masked.
at::Tensor attention_bias(const KernelContext& context, std::int64_t queries, std::int64_t keys,
                          std::int64_t past, const at::TensorOptions& options) {
  at::Tensor bias;
  const auto add = [&](const at::Tensor& term) { bias = bias.defined() ? bias + term : term; };
  if (context.has(3)) {
    at::Tensor mask = context.tensor(3);
    mask = mask.scalar_type() == at::kBool ? additive(mask, options) : mask.to(options);
    if (mask.size(-1) < keys) {
      mask = at::constant_pad_nd(mask, {0, keys - mask.size(-1)}, -kInfinity);
    }
    add(mask);
  }
  const at::TensorOptions integers = options.dtype(at::kLong);
  const bool cache_outside = context.has(6) && !context.has(4);
  // Valid keys before the first query: [N, 1, 1, 1] or [].
  const at::Tensor lengths =
      context.has(6) ? context.tensor(6).to(integers).reshape({-1, 1, 1, 1}) : at::Tensor();
  const at::Tensor offset = cache_outside ? lengths - queries : at::full({}, past, integers);
  const at::Tensor query =
      at::arange(queries, integers).unsqueeze(1) + offset;  // absolute positions [.., Q, 1]
  const at::Tensor key = at::arange(keys, integers);
  if (context.integer("is_causal", 0) != 0) {
    add(additive(key.le(query), options));
  }
  if (const std::int64_t left = context.integer("left_window_size", -1); left >= 0) {
    add(additive(key.ge(query - left), options));
  }
  if (const std::int64_t right = context.integer("right_window_size", -1); right >= 0) {
    add(additive(key.le(query + right), options));
  }
  if (lengths.defined()) {
    add(additive(key.lt(lengths), options));
  }
  return bias;
}

/// softmax(softcap((Q sqrt s)(K sqrt s)^T) + bias) V, with the cache of keys and values, grouped query heads,
/// and the scores as an output at the stage asked for.
///
/// Q [N, heads, Q, D] or [N, Q, heads D], K and V likewise; attn_mask, past_key, past_value, nonpad_kv_seqlen
/// [N].
void attention(KernelContext& context) {
  const at::ScalarType type = context.tensor(0).scalar_type();
  const bool packed = context.tensor(0).dim() == 3;
  const auto heads_of = [&](std::size_t i, std::string_view attribute) {
    const at::Tensor& x = context.tensor(i);
    if (!packed && x.dim() != 4) {
      context.fail(fmt::format("input {} has rank {}, expected 3 or 4 as the query", i, x.dim()));
    }
    return packed ? split_heads(context, x, context.integer(attribute, 0)) : x;
  };
  const at::Tensor query = heads_of(0, "q_num_heads");
  at::Tensor key = heads_of(1, "kv_num_heads");
  at::Tensor value = heads_of(2, "kv_num_heads");
  std::int64_t past = 0;
  if (context.has(4) != context.has(5)) {
    context.fail("past_key and past_value go together");
  }
  if (context.has(4)) {
    past = context.tensor(4).size(2);
    key = at::cat({context.tensor(4), key}, 2);
    value = at::cat({context.tensor(5), value}, 2);
  }
  context.set(1, key.contiguous());
  context.set(2, value.contiguous());

  const std::int64_t heads = query.size(1);
  const double scale = context.real("scale", 1.0 / std::sqrt(static_cast<double>(query.size(3))));
  // The root of the scale is a number of the input's type, as in the operator's function body.
  const at::Tensor root = widened(at::full({}, std::sqrt(scale), query.options()));
  const at::Tensor shared_key = widened(share_heads(context, key, heads));
  at::Tensor scores = at::matmul(rounded_to(widened(query) * root, type),
                                 rounded_to(shared_key * root, type).transpose(-1, -2));
  scores = rounded_to(scores, type);
  const std::int64_t mode = context.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) {
    context.fail(fmt::format("attribute 'qk_matmul_output_mode' is {}, expected 0 to 3", mode));
  }
  const auto expose = [&](std::int64_t at_mode, const at::Tensor& stage) {
    if (mode == at_mode) {
      context.set(3, stage.to(type));
    }
  };
  expose(0, scores);
  if (const double cap = context.real("softcap", 0.0); cap > 0) {
    scores = rounded_to(at::tanh(scores / cap) * cap, type);
  }
  expose(1, scores);
  const at::Tensor bias =
      attention_bias(context, query.size(2), key.size(2), past, scores.options().requires_grad(false));
  if (bias.defined()) {
    scores = rounded_to(scores + bias, type);
  }
  expose(2, scores);
  const at::ScalarType precision = softmax_type(context).value_or(type);
  at::Tensor weights = stepwise_softmax(scores, precision);
  if (bias.defined()) {
    // A query that may attend to nothing has weights 0, not 0 / 0.
    const at::Tensor blind = at::amax(bias.detach(), -1, true).eq(-kInfinity);
    weights = at::where(blind, at::zeros({}, weights.options()), weights);
  }
  weights = rounded_to(weights, type);
  expose(3, weights);
  const at::Tensor y = at::matmul(widened(weights), widened(share_heads(context, value, heads)));
  context.set(0, (packed ? join_heads(y) : y).to(type));
}

/// Attention whose scores and probabilities the node's own bodies may change.
void flex_attention(KernelContext& context) {
  const at::Tensor& query = context.tensor(0);
  if (query.dim() != 4 || context.tensor(1).dim() != 4 || context.tensor(2).dim() != 4) {
    context.fail("expected a query, key and value of rank 4");
  }
  const at::ScalarType type = query.scalar_type();
  const at::ScalarType precision = softmax_type(context).value_or(compute_type(type));
  const double scale = context.real("scale", 1.0 / std::sqrt(static_cast<double>(query.size(3))));
  const at::Tensor root = widened(at::full({}, std::sqrt(scale), query.options()));
  const at::Tensor key = widened(share_heads(context, context.tensor(1), query.size(1)));
  const at::Tensor value = share_heads(context, context.tensor(2), query.size(1));
  at::Tensor scores =
      at::matmul(rounded_to(widened(query) * root, type), rounded_to(key * root, type).transpose(-1, -2));
  scores = scores.to(type).to(precision);
  const auto modified = [&](const at::Tensor& x, std::string_view attribute) {
    if (!context.has_attribute(attribute)) {
      return x;
    }
    const std::vector<Value> results = context.run_body(context.body(attribute), {Value(x)});
    const Array* array = results.size() == 1 ? results.front().array() : nullptr;
    if (array == nullptr || array->data.sizes() != x.sizes()) {
      context.fail(fmt::format("the body '{}' does not return one tensor of its input's shape", attribute));
    }
    return array->data.to(precision);
  };
  scores = modified(scores, "score_mod");
  at::Tensor probabilities = at::softmax(widened(scores), -1).to(precision);
  probabilities = modified(probabilities, "prob_mod");
  context.set(
      0,
      at::matmul(widened(probabilities), widened(value.to(precision))).to(context.tensor(2).scalar_type()));
}

/// Rotates pairs of features by the angle of their position: Su et al. 2021, arXiv:2104.09864
///
/// X [N, heads, S, D] or [N, S, heads D]; caches [positions, R / 2] with position_ids [N, S], or [N, S, R /
/// 2].
void rotary_embedding(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const bool packed = input.dim() == 3;
  if (!packed && input.dim() != 4) {
    context.fail(fmt::format("the input has rank {}, expected 3 or 4", input.dim()));
  }
  const at::Tensor x = widened(packed ? split_heads(context, input, context.integer("num_heads", 0)) : input);
  std::int64_t rotated = context.integer("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? x.size(3) : rotated;
  const auto cache = [&](std::size_t i) {
    at::Tensor t = widened(context.tensor(i));
    if (context.has(3)) {
      const at::Tensor ids = context.tensor(3).to(at::kLong);
      t = t.index_select(0, ids.flatten()).reshape({ids.size(0), ids.size(1), -1});
    }
    if (t.dim() != 3 || t.size(2) * 2 != rotated) {
      context.fail(fmt::format("the cache has shape {}, expected {} angles", graph::to_string(t.sizes()),
                               rotated / 2));
    }
    return t.unsqueeze(1);  // [N, 1, S, R / 2]
  };
  const at::Tensor cosine = cache(1);
  const at::Tensor sine = cache(2);
  const at::Tensor turned = x.slice(3, 0, rotated);
  const bool interleaved = context.integer("interleaved", 0) != 0;
  const at::Tensor first = interleaved ? turned.slice(3, 0, rotated, 2) : turned.slice(3, 0, rotated / 2);
  const at::Tensor second =
      interleaved ? turned.slice(3, 1, rotated, 2) : turned.slice(3, rotated / 2, rotated);
  const at::Tensor real = cosine * first - sine * second;
  const at::Tensor imaginary = sine * first + cosine * second;
  const at::Tensor pairs =
      interleaved ? at::stack({real, imaginary}, -1).flatten(3, 4) : at::cat({real, imaginary}, 3);
  const at::Tensor y = at::cat({pairs, x.slice(3, rotated)}, 3);
  context.set(0, (packed ? join_heads(y) : y).to(input.scalar_type()));
}

/// The recurrence over tokens t of a state S [N, kv, d_k, d_v], in float32:
///
///   S  = exp(g_t) S                          update_rule gated, gated_delta
///   v' = beta_t (v_t - S^T k_t)              delta, gated_delta (else v_t)
///   S  = S + k_t v'^T,   o_t = scale S^T q_t
///
/// query [N, T, heads d_k], key [N, T, kv d_k], value [N, T, kv d_v], past_state, decay [N, T, kv d_k] or [N,
/// T, kv], beta [N, T, kv] or [N, T, 1].
///
/// Source: ONNX LinearAttention-27; Yang et al. 2024, arXiv:2412.06464 (gated delta rule).
void linear_attention(KernelContext& context) {
  const at::ScalarType type = context.tensor(0).scalar_type();
  const std::int64_t heads = context.integer("q_num_heads", 0);
  const std::int64_t kv_heads = context.integer("kv_num_heads", 0);
  const std::string rule = context.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") {
    context.fail(
        fmt::format("attribute 'update_rule' is '{}', expected linear, gated, delta or gated_delta", rule));
  }
  if (context.has(4) != gated || context.has(5) != delta) {
    context.fail(fmt::format("update_rule '{}' takes {} decay and {} beta", rule, gated ? "a" : "no",
                             delta ? "a" : "no"));
  }
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor query = split_heads(context, context.tensor(0).to(wide), heads);
  const at::Tensor key = split_heads(context, context.tensor(1).to(wide), kv_heads);
  const at::Tensor value = split_heads(context, context.tensor(2).to(wide), kv_heads);
  const at::Tensor decay =
      gated ? split_heads(context, context.tensor(4).to(wide), kv_heads).exp() : at::Tensor();
  const at::Tensor beta = delta ? context.tensor(5).to(wide).transpose(1, 2).unsqueeze(-1) : at::Tensor();
  const std::int64_t features = key.size(3);
  at::ScalarType state_type = type;
  at::Tensor state = at::zeros({query.size(0), kv_heads, features, value.size(3)}, query.options());
  if (context.has(3)) {
    state_type = context.tensor(3).scalar_type();
    state = context.tensor(3).to(wide);
  }
  double scale = context.real("scale", 0.0);
  scale = scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(features)) : scale;

  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < query.size(2); ++t) {
    const at::Tensor k = key.select(2, t).unsqueeze(-1);  // [N, kv, d_k, 1]
    at::Tensor v = value.select(2, t).unsqueeze(-2);      // [N, kv, 1, d_v]
    if (gated) {
      state = state * decay.select(2, t).unsqueeze(-1);
    }
    if (delta) {
      v = beta.select(2, t).unsqueeze(-1) * (v - at::matmul(k.transpose(-1, -2), state));
    }
    state = state + k * v;
    const at::Tensor q = query.select(2, t).unsqueeze(-2);  // [N, heads, 1, d_k]
    outputs.push_back(at::matmul(q, share_heads(context, state, heads)) * scale);
  }
  const at::Tensor y = outputs.empty() ? at::zeros({query.size(0), heads, 0, value.size(3)}, query.options())
                                       : at::cat(outputs, 2);
  context.set(0, join_heads(y).to(type));
  context.set(1, state.to(state_type));
}

/// Writes `update` into a cache along an axis from each sample's own position on; circular wraps around.
void tensor_scatter(KernelContext& context) {
  const Array& cache = context.array(0);
  const at::Tensor& update = context.tensor(1);
  const std::int64_t rank = cache.data.dim();
  const std::int64_t axis = context.axis(context.integer("axis", -2), rank);
  if (axis == 0 || update.dim() != rank) {
    context.fail("the axis is the batch axis, or the update's rank differs from the cache's");
  }
  const std::string mode = context.text("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    context.fail(fmt::format("attribute 'mode' is '{}', expected linear or circular", mode));
  }
  const std::int64_t length = cache.data.size(axis);
  const at::TensorOptions integers = update.options().dtype(at::kLong).requires_grad(false);
  const at::Tensor first =
      context.has(2) ? context.tensor(2).to(integers) : at::zeros({cache.data.size(0)}, integers);
  at::Tensor places =
      along_axis(first, 0, rank) + along_axis(at::arange(update.size(axis), integers), axis, rank);
  if (mode == "circular") {
    places = places.remainder(length);
  }
  if (places.numel() > 0 && (places.min().item().toLong() < 0 || places.max().item().toLong() >= length)) {
    context.fail(fmt::format("a write index leaves the cache of length {}", length));
  }
  context.set(0, cache.data.scatter(axis, places.expand(update.sizes()), update), cache.type);
}

constexpr Kernel kKernels[] = {
    {"Attention", attention},
    {"FlexAttention", flex_attention, "ai.onnx.preview"},
    {"RotaryEmbedding", rotary_embedding},
    {"LinearAttention", linear_attention},
    {"TensorScatter", tensor_scatter},
};

}  // namespace

std::span<const Kernel> attention_kernels() { return kKernels; }

}  // namespace tempera::engine::aten

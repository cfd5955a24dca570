#include <nlohmann/json.hpp>

#include "tempera/report/report.h"

namespace tempera::report {
namespace {

using Json = nlohmann::ordered_json;

// Declared ahead, so that list_of finds all of them.
Json json_of(const Loss& l);
Json json_of(const Candidate& c);
Json json_of(const Figure& f);
Json json_of(const Site& s);
Json json_of(const PassRecord& p);
Json json_of(const NodeRecord& n);
Json json_of(const LayerRecord& l);
Json json_of(const Trial& t);
Json json_of(const Scatter& s);

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) {
    list.push_back(json_of(item));
  }
  return list;
}

Json optional_number(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json json_of(const Fingerprint& f) { return {{"path", f.path}, {"sha256", f.sha256}, {"bytes", f.bytes}}; }

Json json_of(const Latency& l) {
  return {{"min_ms", l.min_ms},
          {"median_ms", l.median_ms},
          {"p95_ms", l.p95_ms},
          {"p99_ms", l.p99_ms},
          {"runs", l.runs}};
}

Json json_of(const Speedup& s) {
  return {{"median", s.median},
          {"lower95", s.lower95},
          {"noise", s.noise},
          {"pairs", s.pairs},
          {"faster", s.faster}};
}

Json json_of(const Loss& l) {
  Json json = {{"output", l.output}, {"metric", l.metric}, {"unit", l.unit},
               {"value", l.value},   {"worst", l.worst},   {"worst_sample", l.worst_sample},
               {"limit", l.limit},   {"within", l.within}};
  json["baseline"] = optional_number(l.baseline);
  return json;
}

Json json_of(const Candidate& c) {
  return {{"name", c.name},
          {"engine", c.engine},
          {"precision", c.precision},
          {"threads", c.threads},
          {"rewritten", c.rewritten},
          {"file_bytes", c.file_bytes},
          {"peak_memory_bytes", c.peak_memory_bytes},
          {"load_ms", c.load_ms},
          {"latency", json_of(c.latency)},
          {"speedup", json_of(c.speedup)},
          {"losses", list_of(c.losses)},
          {"chosen", c.chosen},
          {"verdict", c.verdict}};
}

Json json_of(const Figure& f) {
  return {{"name", f.name}, {"unit", f.unit}, {"before", f.before}, {"after", f.after}};
}

Json json_of(const Site& s) { return {{"node", s.node}, {"text", s.text}}; }

Json json_of(const PassRecord& p) {
  return {{"name", p.name},
          {"time_ms", p.time_ms},
          {"rewrites", list_of(p.rewrites)},
          {"skipped", list_of(p.skipped)},
          {"effect", p.effect},
          {"reverted", p.reverted}};
}

Json json_of(const NodeRecord& n) {
  return {{"node", n.node},
          {"op_type", n.op_type},
          {"kernel", n.kernel},
          {"before_us", optional_number(n.before_us)},
          {"after_us", optional_number(n.after_us)}};
}

Json json_of(const LayerRecord& l) {
  return {{"layer", l.layer},
          {"op_type", l.op_type},
          {"format", l.format},
          {"reason", l.reason},
          {"kernel", l.kernel},
          {"sensitivity", optional_number(l.sensitivity)},
          {"speedup", optional_number(l.speedup)},
          {"weight_error", l.weight_error},
          {"bytes_before", l.bytes_before},
          {"bytes_after", l.bytes_after}};
}

Json json_of(const Trial& t) {
  return {{"name", t.name},
          {"loss", t.loss},
          {"latency_ms", t.latency_ms},
          {"file_bytes", t.file_bytes},
          {"within", t.within},
          {"chosen", t.chosen}};
}

Json json_of(const Scatter& s) {
  return {{"output", s.output},
          {"values", s.before.size()},
          {"pearson", optional_number(s.pearson)},
          {"spearman", optional_number(s.spearman)}};
}

}  // namespace

std::string to_json(const Report& r) {
  const Json json = {{"schema", "tempera.report"},
                     {"version", kSchemaVersion},
                     {"command", r.command},
                     {"created", r.created},
                     {"versions", r.versions},
                     {"machine", r.machine},
                     {"model", json_of(r.model)},
                     {"data", json_of(r.data)},
                     {"output", json_of(r.output)},
                     {"settings", r.settings},
                     {"settings_sha256", r.settings_sha256},
                     {"deploy", r.deploy},
                     {"samples", r.samples},
                     {"changed", r.changed},
                     {"verified", r.verified},
                     {"history", r.history},
                     {"summary", r.summary},
                     {"candidates", list_of(r.candidates)},
                     {"figures", list_of(r.figures)},
                     {"passes", list_of(r.passes)},
                     {"nodes", list_of(r.nodes)},
                     {"layers", list_of(r.layers)},
                     {"layers_of", r.layers_of},
                     {"trials", list_of(r.trials)},
                     {"loss_name", r.loss_name},
                     {"loss_limit", r.loss_limit},
                     {"correlations", list_of(r.scatters)},
                     {"notes", r.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tempera::report

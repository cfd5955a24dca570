#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tempera/optimize/candidate.h"
#include "tempera/optimize/optimize.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// A file by its content. \throws Error{kIo}
[[nodiscard]] report::Fingerprint fingerprint(const std::filesystem::path& path);

/// "2026-11-30T12:34:56Z"
[[nodiscard]] std::string now_utc();

/// What is known before anything is measured: command, versions, machine, fingerprints, settings, samples.
void fill_header(report::Report& report, const OptimizeOptions& options, const Subject& subject);

/// How many samples each part has.
void fill_samples(report::Report& report, const data::Split& split);

/// Fills in the hash over the settings as they are now.
void hash_settings(report::Report& report);

/// What was measured: candidates with verdicts, time per node, summary, deploy settings.
///
/// \param chosen   index into candidates; 0 is the original
/// \param shipped  the written file loaded afresh, as measured on the verification part: a row of its own
/// \param written  the staged model file
void fill_results(report::Report& report, const OptimizeOptions& options, const Subject& subject,
                  const engine::Engine& engine, const std::vector<Candidate>& candidates, std::size_t chosen,
                  const Candidate& shipped, const std::filesystem::path& written, const Host& host);

}  // namespace tempera::optimize

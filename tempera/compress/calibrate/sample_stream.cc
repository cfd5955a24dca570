#include "tempera/compress/calibrate/sample_stream.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::compress {
namespace {

/// Hands out samples in order and keeps the failure that comes first in that order. Samples are handed out in
/// order and those handed out are finished, so every sample before a failed one has been seen.
class Stream {
 public:
  Stream(data::Prefetcher& samples, std::size_t first, std::size_t count, std::size_t batch, const Host& host)
      : samples_(samples), next_(first), end_(first + count), batch_(batch), host_(host) {}

  struct Batch {
    std::size_t first = 0;
    std::vector<data::Sample> samples;
  };

  Batch take() {
    const std::lock_guard lock(mutex_);
    Batch batch{next_, {}};
    try {
      while (!error_ && next_ < end_ && batch.samples.size() < batch_) {
        host_.cancel.throw_if_cancelled();
        std::optional<data::Sample> sample = samples_.next();
        TEMPERA_CHECK(sample.has_value(), "a sample for each number of the stream");
        batch.samples.push_back(std::move(*sample));
        ++next_;
      }
    } catch (...) {
      record(next_, std::current_exception());
    }
    return batch;
  }

  void fail(std::size_t number) {
    const std::lock_guard lock(mutex_);
    record(number, std::current_exception());
  }

  void rethrow() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  void record(std::size_t number, std::exception_ptr error) {
    if (!error_ || number < failed_) {
      failed_ = number;
      error_ = std::move(error);
    }
  }

  data::Prefetcher& samples_;
  std::size_t next_;
  const std::size_t end_;
  const std::size_t batch_;
  const Host& host_;
  std::mutex mutex_;
  std::size_t failed_ = 0;
  std::exception_ptr error_;
};

void work(Stream& stream, std::size_t worker, TapSession& session, Progress& progress,
          const std::function<void(const StreamedSample&)>& see) {
  while (true) {
    const Stream::Batch batch = stream.take();
    if (batch.samples.empty()) {
      return;
    }
    std::size_t number = batch.first;
    try {
      session.run(batch.samples, [&](const TappedSample& tapped) {
        number = batch.first + tapped.place;
        see({worker, number, batch.samples[tapped.place].name, tapped.values});
      });
    } catch (Error& error) {
      error.in(fmt::format("sample '{}'", batch.samples[number - batch.first].name));
      stream.fail(number);
    } catch (...) {
      stream.fail(number);
    }
    progress.advance(static_cast<std::int64_t>(batch.samples.size()));
  }
}

}  // namespace

void stream_samples(std::vector<std::unique_ptr<TapSession>>& sessions, data::Prefetcher& samples,
                    std::size_t first, std::size_t count, std::size_t batch, const Host& host,
                    const std::function<void(const StreamedSample&)>& see) {
  Stream stream(samples, first, count, batch, host);
  {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 1; worker < sessions.size(); ++worker) {
      threads.emplace_back([&, worker] { work(stream, worker, *sessions[worker], host.progress, see); });
    }
    work(stream, 0, *sessions[0], host.progress, see);
  }
  stream.rethrow();
}

}  // namespace tempera::compress

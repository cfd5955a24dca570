#include "tempera/data/prefetch.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "tempera/base/error.h"

namespace tempera::data {

int default_workers() {
  constexpr unsigned kMax = 8;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMax));
}

/// Workers take the next place in the order; the owner takes results in order. At most 2 * workers places are
/// taken ahead of the owner.
class Prefetcher::Pool {
 public:
  Pool(const Dataset& dataset, std::vector<std::size_t> indices, int workers, CancelToken cancel)
      : dataset_(dataset),
        indices_(std::move(indices)),
        ahead_(static_cast<std::size_t>(workers) * 2),
        cancel_(std::move(cancel)) {
    const auto threads = std::min(static_cast<std::size_t>(workers), indices_.size());
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  ~Pool() {
    for (std::jthread& thread : threads_) {
      thread.request_stop();
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::optional<Sample> next() {
    cancel_.throw_if_cancelled();
    std::unique_lock lock(mutex_);
    if (given_ == indices_.size()) {
      return std::nullopt;
    }
    ready_.wait(lock, [&] { return done_.contains(given_); });
    Result result = std::move(done_.at(given_));
    done_.erase(given_);
    ++given_;
    lock.unlock();
    room_.notify_all();
    if (result.error) {
      std::rethrow_exception(result.error);
    }
    return std::move(result.sample);
  }

 private:
  struct Result {
    Sample sample;
    std::exception_ptr error;
  };

  void work(const std::stop_token& stop) {
    while (true) {
      std::size_t place = 0;
      {
        std::unique_lock lock(mutex_);
        const bool go_on =
            room_.wait(lock, stop, [&] { return taken_ == indices_.size() || taken_ < given_ + ahead_; });
        if (!go_on || stop.stop_requested() || taken_ == indices_.size()) {
          return;
        }
        place = taken_++;
      }
      Result result;
      try {
        cancel_.throw_if_cancelled();
        result.sample = dataset_.load(indices_[place]);
      } catch (...) {
        result.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        done_.emplace(place, std::move(result));
      }
      ready_.notify_one();
    }
  }

  const Dataset& dataset_;
  const std::vector<std::size_t> indices_;
  const std::size_t ahead_;
  const CancelToken cancel_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable ready_;
  std::map<std::size_t, Result> done_;
  std::size_t taken_ = 0;
  std::size_t given_ = 0;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

Prefetcher::Prefetcher(const Dataset& dataset, std::vector<std::size_t> indices, int workers,
                       CancelToken cancel)
    : pool_(std::make_unique<Pool>(dataset, std::move(indices), std::max(workers, 1), std::move(cancel))) {}
Prefetcher::~Prefetcher() = default;

std::optional<Sample> Prefetcher::next() { return pool_->next(); }

std::vector<Sample> load_all(const Dataset& dataset, const std::vector<std::size_t>& indices, int workers,
                             const CancelToken& cancel) {
  Prefetcher prefetcher(dataset, indices, workers, cancel);
  std::vector<Sample> samples;
  while (std::optional<Sample> sample = prefetcher.next()) {
    samples.push_back(std::move(*sample));
  }
  return samples;
}

}  // namespace tempera::data

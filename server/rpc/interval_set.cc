#include "server/rpc/interval_set.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace attnd {

std::optional<Interval> IntervalSet::FindOverlap(const Interval& interval) const {
  if (interval.size() <= 0) return std::nullopt;
  auto next = ends_.upper_bound(interval.begin);
  if (next != ends_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second > interval.begin) return Interval{previous->first, previous->second};
  }
  if (next != ends_.end() && next->first < interval.end) return Interval{next->first, next->second};
  return std::nullopt;
}

void IntervalSet::Add(const Interval& interval) {
  assert(interval.size() > 0 && !FindOverlap(interval).has_value());
  size_ += interval.size();
  Interval merged = interval;
  auto next = ends_.lower_bound(interval.begin);
  if (next != ends_.end() && next->first == interval.end) {
    merged.end = next->second;
    next = ends_.erase(next);
  }
  if (next != ends_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second == interval.begin) {
      previous->second = merged.end;
      return;
    }
  }
  ends_.emplace_hint(next, merged.begin, merged.end);
}

Interval IntervalSet::FirstGap(std::int64_t limit) const {
  const auto first = ends_.begin();
  if (first == ends_.end()) return {0, limit};
  if (first->first > 0) return {0, std::min(first->first, limit)};
  if (first->second >= limit) return {limit, limit};
  const auto second = std::next(first);
  return {first->second, second == ends_.end() ? limit : std::min(second->first, limit)};
}

}  // namespace attnd

#include "tools/bench/correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bastion {
namespace {

// The rank of each value, from 0. Equal values share their mean rank.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

}  // namespace

double Pearson(const std::vector<std::pair<double, double>>& pairs) {
  const auto count = static_cast<double>(pairs.size());
  if (pairs.size() < 2) return 0;
  double mean_x = 0, mean_y = 0;
  for (const auto& [x, y] : pairs) {
    mean_x += x / count;
    mean_y += y / count;
  }
  double xx = 0, yy = 0, xy = 0;
  for (const auto& [x, y] : pairs) {
    xx += (x - mean_x) * (x - mean_x);
    yy += (y - mean_y) * (y - mean_y);
    xy += (x - mean_x) * (y - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

double Spearman(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> x, y;
  for (const auto& [a, b] : pairs) {
    x.push_back(a);
    y.push_back(b);
  }
  const std::vector<double> x_ranks = Ranks(x), y_ranks = Ranks(y);
  std::vector<std::pair<double, double>> ranks;
  ranks.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) ranks.emplace_back(x_ranks[i], y_ranks[i]);
  return Pearson(ranks);
}

}  // namespace bastion

// One pass of softmax regression by SGD, as a plain C function that simple_ml_ext.py calls.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

// X (m, n), y (m), theta (n, k), all row-major; theta changes in place.
extern "C" void softmax_regression_epoch(const float* X, const unsigned char* y, float* theta,
                                         std::size_t m, std::size_t n, std::size_t k, float lr,
                                         std::size_t batch) {
  std::vector<float> gradient(n * k), probabilities(k);
  for (std::size_t start = 0; start < m; start += batch) {
    const std::size_t rows = std::min(batch, m - start);
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    for (std::size_t i = start; i < start + rows; ++i) {
      const float* x = X + i * n;
      std::fill(probabilities.begin(), probabilities.end(), 0.0f);
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t c = 0; c < k; ++c) probabilities[c] += x[j] * theta[j * k + c];
      float total = 0.0f;
      for (float& p : probabilities) total += p = std::exp(p);
      for (float& p : probabilities) p /= total;
      probabilities[y[i]] -= 1.0f;  // d loss / d logits
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t c = 0; c < k; ++c) gradient[j * k + c] += x[j] * probabilities[c];
    }
    const float step = lr / static_cast<float>(rows);
    for (std::size_t j = 0; j < n * k; ++j) theta[j] -= step * gradient[j];
  }
}

"""Looking at programs: text, times, and a page about them."""

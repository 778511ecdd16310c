// Applies the chosen theme, or the theme of the system, before the page is drawn.
window.oahuTheme = {
  system: matchMedia("(prefers-color-scheme: dark)"),
  onChange: () => {},
  dark() {
    const chosen = localStorage.getItem("oahu-theme");
    return chosen ? chosen === "dark" : this.system.matches;
  },
  apply() {
    document.documentElement.dataset.theme = this.dark() ? "dark" : "light";
    this.onChange(this.dark());
  },
  toggle() {
    localStorage.setItem("oahu-theme", this.dark() ? "light" : "dark");
    this.apply();
  },
};
window.oahuTheme.apply();
window.oahuTheme.system.addEventListener("change", () => window.oahuTheme.apply());

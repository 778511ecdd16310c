// Before anything is drawn: light or dark, as someone chose or as the system has it.
window.oahuTheme = {
  system: matchMedia("(prefers-color-scheme: dark)"),
  told: () => {},
  dark() {
    const chosen = localStorage.getItem("oahu-theme");
    return chosen ? chosen === "dark" : this.system.matches;
  },
  apply() {
    document.documentElement.dataset.theme = this.dark() ? "dark" : "light";
    this.told(this.dark());
  },
  toggle() {
    localStorage.setItem("oahu-theme", this.dark() ? "light" : "dark");
    this.apply();
  },
};
window.oahuTheme.apply();
window.oahuTheme.system.addEventListener("change", () => window.oahuTheme.apply());

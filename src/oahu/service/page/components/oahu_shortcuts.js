// Keyboard shortcuts that work everywhere on the page, and the browser's back button.
export default {
  emits: ["help", "undo", "escape", "navigate"],
  template: `<button type="button" class="icon" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" @click="$emit('help')">?</button>`,
  mounted() {
    document.addEventListener("keydown", this.pressed);
    window.addEventListener("popstate", this.navigated);
  },
  unmounted() {
    document.removeEventListener("keydown", this.pressed);
    window.removeEventListener("popstate", this.navigated);
  },
  methods: {
    pressed(event) {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
      if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector(".q-dialog")) return;
      const action = { "?": "help", u: "undo", Escape: "escape" }[event.key];
      if (action) this.$emit(action);
    },
    navigated() {
      this.$emit("navigate", location.search);
    },
  },
};

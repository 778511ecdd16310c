// Light or dark colours: the system setting until the visitor chooses.
export default {
  data: () => ({ dark: window.oahuTheme.dark() }),
  template: `<button type="button" class="icon" :aria-label="dark ? 'Use light colours' : 'Use dark colours'" :title="dark ? 'Light' : 'Dark'"
    @click="toggle">{{ dark ? '☀' : '☾' }}</button>`,
  mounted() {
    window.oahuTheme.onChange = (dark) => {
      this.dark = dark;
      Quasar.Dark.set(dark);
    };
    Quasar.Dark.set(this.dark);
  },
  methods: {
    toggle() {
      window.oahuTheme.toggle();
    },
  },
};

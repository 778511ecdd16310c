// The number of learned constraints and the weights in one line.
export default {
  props: { data: String },
  computed: {
    content() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <div class="summary" aria-hidden="true"><span>{{ content.constraints.toLocaleString('en') }} learned</span>
      <div class="weight-bar"><i v-for="space in content.spaces" :key="space.name"
        :style="{ width: 100 * space.weight + '%', background: 'var(--space-' + space.tint + ')' }"></i></div></div>`,
};
